// The page that compares runs: its list and the specs beside charts that show them all.

import { isTouched } from "../forms/forms.js";
import { startKeys, startLighting } from "../grid/keys.js";
import { pin, startWindow } from "../grid/window.js";
import { on } from "../live/live.js";
import { patch } from "../live/patch.js";
import { all, around, need, seek } from "../shared/dom.js";
import { mountAll, sweep } from "../shared/modules.js";
import { startAdding } from "./adding.js";
import { knownRuns, listedRuns, paint, toggled, withGone } from "./list.js";
import { change, runsIn, runsOut, withQuery } from "./query.js";
import { startSides } from "./sides.js";

const MIN_MS = 1500; // between two looks at how the runs are
const QUIET_MS = 9000;
const EACH = "*"; // in the place of a group: a line for each run
const ASKED = ["metric", "statistic"]; // selects of the list that are parameters of its address

/** @typedef {import("./list.js").ChartState} ChartState */
/** @typedef {import("./list.js").ListedRun} ListedRun */

/** @param {HTMLElement} element */
export function mount(element) {
  const list = need(element, '[data-part="list"]');
  const specs = seek(element, '[data-part="specs"]'); // not there while nothing is compared
  const charts = seek(element, "[data-module=charts]");
  const folder = seek(element, "[data-fold]");
  const isFiltered = element.dataset.filtered !== undefined;
  // Those of the address; of a filter those that the server found.
  const ids = () => (isFiltered ? listedRuns(list).map(({ id }) => id) : runsIn());
  /** @type {ChartState} */
  let state = { hidden: [], colours: {}, group: null };
  /** @type {ListedRun[]} */
  let known = []; // the runs as the charts have them
  /** @type {string[] | null} */
  let unbrushed = null; // what was hidden before the plots over runs hid more
  let timer = 0;
  let lastAt = Date.now();
  const asked = { list: 0, specs: 0 };
  const taken = { list: 0, specs: 0 };

  /** @param {object} detail */
  const send = (detail) => charts?.dispatchEvent(new CustomEvent("workspace", { detail }));
  const palette = need(element, "#swatches");
  const stopAdding = startAdding(need(element, "[data-add]"), {
    url: element.dataset.jump ?? "",
    isHere: (id) => ids().includes(id),
    onAdd: add,
  });

  const reloadSides = startSides(element, () => ids().filter((id) => !state.hidden.includes(id)));

  // The newest part; null where it did not come, or behind one that was asked for later.
  /** @param {"list" | "specs"} name */
  async function fetchPart(name) {
    const mine = (asked[name] += 1);
    const { by = "", band = "" } = state.group ?? {};
    const url = location.pathname + withQuery(location.search, { fragment: name, group: by, band });
    const answer = await fetch(url, { headers: { "X-Requested-With": "fetch" } }).catch(() => null);
    // Without an answer the lamp says that the server is away, and the next message asks again.
    const html = answer?.ok ? await answer.text().catch(() => null) : null;
    if (html === null || mine < taken[name]) return null;
    taken[name] = mine;
    return html;
  }
  async function refresh() {
    timer = 0;
    lastAt = Date.now();
    const html = await fetchPart("list");
    if (html === null || !element.isConnected) return;
    patch(list, isFiltered ? html : withGone(html, list, runsIn()));
    sweep();
    mountAll(list);
    show();
    grid?.show();
  }
  function show() {
    const before = known;
    known = knownRuns(list, before, ids());
    paint(element, known, state);
    reloadSides();
    if (before.length && JSON.stringify(before) !== JSON.stringify(known)) send({ runs: known });
    need(element, "[data-count]").textContent = `${known.length} run${known.length === 1 ? "" : "s"}`;
  }
  async function refreshSpecs() {
    const html = specs && (await fetchPart("specs"));
    if (!specs || html === null) return;
    patch(specs, html);
    paint(element, known, state);
  }
  function soon() {
    if (!timer && !document.hidden && charts) timer = setTimeout(refresh, Math.max(0, lastAt + MIN_MS - Date.now()));
  }
  /** @param {Event} event */
  function onWorkspace(event) {
    const before = state.group;
    state = /** @type {CustomEvent<ChartState>} */ (event).detail;
    if (state.group && !isGroupable(state.group.by)) return send({ group: null });
    paint(element, known, state);
    reloadSides();
    if (before?.by !== state.group?.by || before?.band !== state.group?.band) refresh();
  }
  // Of the plots over runs: the others are hidden as if by their eyes, until nothing is brushed.
  /** @param {Event} event */
  function onBrushed(event) {
    /** @type {{runs: string[] | null}} */
    const { runs } = /** @type {CustomEvent} */ (event).detail;
    unbrushed ??= runs && state.hidden;
    const before = unbrushed ?? [];
    if (!runs) unbrushed = null;
    send({ hidden: runs ? ids().filter((id) => before.includes(id) || !runs.includes(id)) : before });
  }
  /** What was kept for other runs may be the same in all of these. @param {string} by */
  function isGroupable(by) {
    const paths = [EACH, ...boxes("[name=group]").map((box) => box.value)];
    return by.split(",").every((path) => paths.includes(path));
  }
  /** @param {string} selector */
  function boxes(selector) {
    return /** @type {HTMLInputElement[]} */ (all(list, selector));
  }
  /** @param {MouseEvent} event */
  function onClick(event) {
    const row = around(event, ".grid-row");
    const base = around(event, "[data-base]");
    if (base) return setBase(base.getAttribute("aria-pressed") === "true" ? "" : (base.dataset.base ?? ""));
    const sort = around(event, "[data-sort]")?.dataset;
    if (sort) {
      change({ sort: (event.shiftKey ? sort.also : sort.sort) ?? "" });
      return refresh();
    }
    if (around(event, "[data-fold]")) return fold(element.dataset.list !== "closed");
    if (around(event, "[data-eyes]")) return send({ hidden: toggled(state.hidden, ids()) });
    const choice = around(event, "[data-index]")?.dataset.index;
    if (choice) return send({ colours: { ...state.colours, [palette.dataset.run ?? ""]: Number(choice) } });
    const pick = around(event, "[data-pick]");
    if (row && pick) return preparePalette(pick, row);
    if (row && around(event, "[data-close]")) takeOut(row);
  }
  /** @param {{target: EventTarget | null}} event */
  function onChange(event) {
    const { name, value, checked } = /** @type {HTMLInputElement} */ (event.target);
    if (ASKED.includes(name)) {
      change({ [name]: value });
      refresh().then(() => seek(element, "[data-module=run-plots]")?.dispatchEvent(new Event("refetch")));
      return;
    }
    if (name === "run") return send({ hidden: toggled(state.hidden, [value]) });
    if (name === "base") return setBase(value);
    if (name === "differences") {
      change({ all: checked ? "" : "1" });
      refreshSpecs();
      return;
    }
    if (name === "band") return send({ group: { ...state.group, band: value } });
    if (name !== "group") return;
    const by = groupsAfter(value, checked).join();
    send({ group: by ? { by, band: state.group?.band ?? "minmax" } : null });
  }
  // Each run by itself, or by fields: what was chosen last rules out the other.
  /** @param {string} value @param {boolean} isChecked */
  function groupsAfter(value, isChecked) {
    const chosen = boxes("[name=group]:checked").map((box) => box.value);
    return isChecked ? chosen.filter((one) => (one === EACH) === (value === EACH)) : chosen;
  }
  /** @param {string} base */
  async function setBase(base) {
    change({ base });
    await Promise.all([refresh(), refreshSpecs()]);
  }
  /** @param {string} id */
  async function add(id) {
    change({ run: [...runsIn(), id], without: runsOut().filter((one) => one !== id) });
    if (!charts) return location.reload(); // the first one: there is nothing here yet that it could join
    await Promise.all([refresh(), refreshSpecs()]);
    seek(list, `.row-check[value="${CSS.escape(id)}"]`)?.focus();
  }
  /** @param {HTMLElement} row */
  async function takeOut(row) {
    const buttons = all(list, "[data-close]");
    const at = buttons.indexOf(need(row, "[data-close]"));
    const run = row.dataset.key ?? "";
    change({ run: runsIn().filter((id) => id !== run), without: isFiltered ? [...runsOut(), run] : [] });
    if (ids().every((id) => id === run)) return location.reload();
    (buttons[at + 1] ?? buttons[at - 1])?.focus();
    row.remove();
    await Promise.all([refresh(), refreshSpecs()]);
  }
  /** It opens beside the dot by itself. @param {HTMLElement} dot @param {HTMLElement} row */
  function preparePalette(dot, row) {
    palette.dataset.run = row.dataset.key;
    palette.ariaLabel = dot.ariaLabel;
    for (const one of all(palette, "[data-index]"))
      one.ariaPressed = String(row.classList.contains(`series-${Number(one.dataset.index) + 1}`));
  }
  /** @param {boolean} isClosed */
  function fold(isClosed) {
    element.dataset.list = isClosed ? "closed" : "open";
    folder?.setAttribute("aria-expanded", String(!isClosed)); // only where there are runs to fold
  }

  const narrow = matchMedia("(max-width: 900px)");
  const onWidth = () => fold(narrow.matches && charts !== null);
  onWidth();
  narrow.addEventListener("change", onWidth);
  element.addEventListener("click", onClick);
  element.addEventListener("change", onChange);
  element.addEventListener("workspacechange", onWorkspace);
  element.addEventListener("brushed", onBrushed);
  const table = /** @type {HTMLTableElement | null} */ (seek(list, ".grid-view"));
  const grid = table && startGrid(table, send);
  const stops = [
    on("run", ({ run }) => known.some(({ id }) => id === run) && soon()),
    on("ping", () => Date.now() - lastAt > QUIET_MS && soon()), // no message reports that a run was deleted
    on("again", soon),
  ];
  if (charts) show();
  send({});
  for (const control of all(element, "[data-part] :is(input, select)"))
    if (isTouched(control)) onChange({ target: control });
  return () => {
    clearTimeout(timer);
    narrow.removeEventListener("change", onWidth);
    stopAdding();
    grid?.end();
    stops.forEach((stop) => stop());
  };
}

// The keys of the grid, and what one points at in it; all of its rows are in the page.
/** @param {HTMLTableElement} table @param {(detail: object) => void} send */
function startGrid(table, send) {
  const rows = startWindow(table, { onRows: () => keys.mark(), onCount() {} });
  const keys = startKeys(table, rows, { select: (row) => need(row, ".row-check").click(), menu() {}, fold() {} });
  const endLighting = startLighting(table, send);
  function show() {
    pin(table);
    rows.reset();
  }
  show();
  return {
    show,
    end() {
      rows.end();
      endLighting();
    },
  };
}
