// Keeps every relative time on the page current, and writes times of day as the reader's clock shows them.
import { all, put } from "../shared/dom.js";
import { age } from "../shared/format.js";

export function startAges() {
  writeClocks(document);
  setInterval(() => {
    if (document.hidden) return;
    const now = Date.now();
    for (const time of /** @type {HTMLTimeElement[]} */ (all(document, "time[data-age]")))
      put(time, age(Date.parse(time.dateTime), now));
  }, 1000);
}

/** Where it is another day than today, the day too. @param {ParentNode} root */
export function writeClocks(root) {
  const today = new Date().toDateString();
  for (const one of all(root, "[data-clock]")) {
    const at = new Date(1000 * Number(one.dataset.clock));
    const time = [at.getHours(), at.getMinutes()].map((part) => String(part).padStart(2, "0")).join(":");
    const day = at.toLocaleDateString("en-US", { month: "short", day: "numeric" });
    put(one, at.toDateString() === today ? time : `${day}, ${time}`);
  }
}
