// Keeps every relative time on the page current.
import { all, put } from "../shared/dom.js";
import { age } from "../shared/format.js";

export function startAges() {
  setInterval(() => {
    if (document.hidden) return;
    const now = Date.now();
    for (const time of /** @type {HTMLTimeElement[]} */ (all(document, "time[data-age]")))
      put(time, age(Date.parse(time.dateTime), now));
  }, 1000);
}
