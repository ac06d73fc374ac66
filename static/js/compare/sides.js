// Parts of the page that have two to four runs side by side: loaded when they are opened, and again when other runs are
// shown or something else is chosen in them.

import { patch } from "../live/patch.js";
import { all, around, need } from "../shared/dom.js";

const MOST = 4; // runs

/** @param {HTMLElement} element @param {() => string[]} shownRuns */
export function startSides(element, shownRuns) {
  const sides = /** @type {HTMLDetailsElement[]} */ (all(element, "[data-side]"));
  /** @type {Map<HTMLElement, string>} */
  const loaded = new Map(); // side -> the query that it shows, or waits for

  /** @param {HTMLDetailsElement} side */
  async function load(side) {
    const fields = /** @type {HTMLSelectElement[]} */ (all(side, "select"));
    const runs = shownRuns().slice(0, MOST);
    const chosen = fields.map(({ name, value }) => [name, value]);
    const query = String(new URLSearchParams([...runs.map((run) => ["run", run]), ...chosen]));
    if (!side.open || loaded.get(side) === query) return;
    loaded.set(side, query);
    const place = need(side, "[data-place]");
    place.setAttribute("aria-busy", "true");
    const url = `?${query}&fragment=${side.dataset.side}`;
    const answer = await fetch(url, { headers: { "X-Requested-With": "fetch" } }).catch(() => null);
    const html = answer?.ok ? await answer.text().catch(() => null) : null;
    if (loaded.get(side) !== query) return;
    place.removeAttribute("aria-busy");
    if (html === null) loaded.delete(side);
    patch(place, html ?? '<p class="card-body small" role="alert">This did not come. Close it, and open it again.</p>');
  }
  for (const side of sides) {
    side.addEventListener("toggle", () => load(side));
    side.addEventListener("change", (event) => around(event, "select") && load(side));
  }
  return () => sides.forEach(load);
}
