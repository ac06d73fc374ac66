// Keeps every relative time on the page current.
import { age } from "../shared/format.js";

export function startAges() {
  setInterval(() => {
    if (document.hidden) return;
    const now = Date.now();
    /** @type {NodeListOf<HTMLTimeElement>} */
    const times = document.querySelectorAll("time[data-age]");
    for (const time of times) {
      const words = age(Date.parse(time.dateTime), now);
      if (time.textContent !== words) time.textContent = words;
    }
  }, 1000);
}
