// Keeps every relative time on the page current.
import { all } from "../shared/dom.js";
import { age } from "../shared/format.js";

export function startAges() {
  setInterval(() => {
    if (document.hidden) return;
    const now = Date.now();
    for (const time of /** @type {HTMLTimeElement[]} */ (all(document, "time[data-age]"))) {
      const words = age(Date.parse(time.dateTime), now);
      if (time.textContent !== words) time.textContent = words;
    }
  }, 1000);
}
