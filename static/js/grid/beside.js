// Charts beside a table, of the runs that it shows: of others when it shows others, and a row lights its line.

import { on } from "../live/live.js";
import { need } from "../shared/dom.js";
import { startLighting } from "./keys.js";

const MIN_MS = 4000; // between two looks at which runs there are

/** @param {HTMLElement} pane */
export function mount(pane) {
  const place = /** @type {HTMLElement} */ (pane.closest(".grid-page"));
  const charts = need(pane, "[data-module=charts]");
  let known = JSON.stringify(JSON.parse(need(pane, "#chart-runs").textContent ?? ""));
  let timer = 0;
  let number = 0; // of the request

  /** @param {object} detail */
  const send = (detail) => charts.dispatchEvent(new CustomEvent("workspace", { detail }));
  async function refresh() {
    clearTimeout(timer);
    timer = 0;
    const mine = (number += 1);
    const query = new URLSearchParams(location.search);
    query.set("fragment", "charts");
    const answer = await fetch(`?${query}`, { headers: { "X-Requested-With": "fetch" } }).catch(() => null);
    const found = answer?.ok ? await answer.json().catch(() => null) : null;
    if (!found || mine !== number || !pane.isConnected) return; // the table says what is wrong
    const text = JSON.stringify(found.runs);
    if (text === known) return;
    known = text;
    need(pane, "[data-words]").textContent = found.words;
    send({ runs: found.runs });
  }
  function soon() {
    if (!timer && !document.hidden) timer = setTimeout(refresh, MIN_MS);
  }
  place.addEventListener("shown", refresh);
  const endLighting = startLighting(place, send);
  const stops = ["run", "again"].map((type) => on(type, soon));
  return () => {
    clearTimeout(timer);
    place.removeEventListener("shown", refresh);
    endLighting();
    stops.forEach((stop) => stop());
  };
}
