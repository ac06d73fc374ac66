// Charts beside a table, of the runs that it shows: of others when it shows others, and a row lights its line.

import { on } from "../live/live.js";
import { around, need, seek } from "../shared/dom.js";

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

// The row that is pointed at, or that keys are in, lights its lines as the charts' crosshair does.
/** @param {HTMLElement} place @param {(detail: object) => void} send */
export function startLighting(place, send) {
  let lit = "";
  /** @param {Event} event */
  function light(event) {
    const isKey = event.type === "keyup";
    const row = isKey ? seek(place, "tr:has(> .is-active)") : around(event, "tr[data-key]");
    const { key = "", group } = row?.dataset ?? {};
    const line = group === undefined ? { key: `run ${key}`, runs: [key] } : { key: `group ${group}`, runs: [] };
    if (key !== lit) send({ lit: key ? line : null });
    lit = key;
  }
  const types = ["pointerover", "pointerleave", "keyup"];
  for (const type of types) place.addEventListener(type, light);
  return () => types.forEach((type) => place.removeEventListener(type, light));
}
