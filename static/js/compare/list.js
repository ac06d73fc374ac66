// The list of the runs as the server draws it, in step with the charts.
import { all, make, need, seek } from "../shared/dom.js";
import { groupColours } from "../shared/grouping.js";

/** @typedef {{id: string, fields: Record<string, string>, isLive?: boolean}} ListedRun */
/** @typedef {{by: string, band: string}} Grouping */
/** @typedef {{hidden: string[], colours: Record<string, number>, group: Grouping | null}} ChartState */
/** @typedef {{key: string, runs: string[]}} Line */

// The runs as the server lists them.
/** @param {ParentNode} list @returns {ListedRun[]} */
export function listedRuns(list) {
  return JSON.parse(list.querySelector("#compared-runs")?.textContent ?? "[]");
}

// The runs of the list, for the charts: those that the server has, and deleted ones as they were.
/** @param {ParentNode} list @param {ListedRun[]} before @param {string[]} ids */
export function knownRuns(list, before, ids) {
  const listed = listedRuns(list);
  /** @type {Map<string, ListedRun>} */
  const here = new Map([
    ...before.map((run) => /** @type {[string, ListedRun]} */ ([run.id, { ...run, isLive: false }])),
    ...listed.map((run) => /** @type {[string, ListedRun]} */ ([run.id, run])),
  ]);
  return ids.flatMap((id) => here.get(id) ?? []);
}

// The server's newest list, with the rows of deleted runs, which stay until they are closed.
/** @param {string} html @param {ParentNode} list @param {string[]} runs */
export function withGone(html, list, runs) {
  const template = document.createElement("template");
  template.innerHTML = html;
  const fresh = template.content.querySelector("[data-runs]");
  for (const row of all(list, "[data-run]")) {
    const id = row.dataset.run ?? "";
    if (!runs.includes(id) || template.content.querySelector(`[data-run="${CSS.escape(id)}"]`)) continue;
    fresh?.append(gone(/** @type {HTMLElement} */ (row.cloneNode(true))));
  }
  return template.innerHTML;
}

/** @param {HTMLElement} row */
function gone(row) {
  row.classList.add("is-gone");
  const facts = need(row, ".compare-facts");
  facts.replaceChildren(make("span", {}, "Deleted. What was drawn stays until you take it out."));
  const name = row.querySelector("a.name");
  // There is nothing to open any more.
  name?.replaceWith(make("span", { className: "name clip", textContent: name.textContent }));
  return row;
}

// Eyes, colours and groups as the charts' state has them.
/** @param {HTMLElement} element @param {ListedRun[]} runs @param {ChartState} state */
export function paint(element, runs, state) {
  const hidden = new Set(state.hidden);
  const by = state.group?.by ?? "";
  const ofGroups = by ? groupColours(runs, by) : null;
  /** @type {number | null} */
  let ofGroup = null;
  for (const row of all(element, "[data-group], [data-run]")) {
    if (row.dataset.group !== undefined) ofGroup = ofGroups?.get(row.dataset.group) ?? null;
    else press(row, !hidden.has(row.dataset.run ?? ""));
    tint(need(row, ".run-dot"), ofGroup ?? colourOf(row, state), ofGroup !== null);
  }
  const eyes = element.querySelector("[data-eyes]");
  if (eyes) eyes.textContent = runs.some(({ id }) => hidden.has(id)) ? "Show all" : "Hide all";
  for (const dot of all(element, "[data-dot]")) {
    const row = seek(element, `[data-run="${CSS.escape(dot.dataset.dot ?? "")}"]`);
    if (row) tint(dot, colourOf(row, state));
  }
}

// The lines of the row that is pointed at, as the charts' crosshair lights them; null where none is.
/** @param {Event} event @returns {Line | null} */
export function lineAt(event) {
  const isOut = event.type.endsWith("out");
  const target = isOut ? /** @type {MouseEvent} */ (event).relatedTarget : event.target; // within a row nothing changes
  const at = /** @type {HTMLElement | null} */ (target);
  const list = /** @type {Element} */ (event.currentTarget);
  const row = list.contains(at) ? /** @type {HTMLElement | null} */ (at?.closest("[data-run], [data-group]")) : null;
  if (!row) return null;
  const { run, group } = row.dataset;
  return run ? { key: `run ${run}`, runs: [run] } : { key: `group ${group}`, runs: [] };
}

// With these runs shown where any of them is hidden, else hidden.
/** @param {string[]} hidden @param {string[]} ids */
export function toggled(hidden, ids) {
  const others = hidden.filter((id) => !ids.includes(id));
  return others.length < hidden.length ? others : [...hidden, ...ids];
}

/** @param {HTMLElement} row @param {ChartState} state */
export function colourOf(row, state) {
  return state.colours?.[row.dataset.run ?? ""] ?? Number(row.dataset.colour);
}

/** @param {HTMLElement} row @param {boolean} isShown */
function press(row, isShown) {
  row.classList.toggle("is-hidden", !isShown);
  need(row, "[data-eye]").setAttribute("aria-pressed", String(isShown));
}

/** @param {HTMLElement} dot @param {number} index @param {boolean} [isGroups] */
function tint(dot, index, isGroups = false) {
  for (const name of [...dot.classList]) if (name.startsWith("series-")) dot.classList.remove(name);
  dot.classList.add(`series-${index + 1}`);
  if (dot.dataset.pick === undefined) return;
  /** @type {HTMLButtonElement} */ (dot).disabled = isGroups; // a line of a group has the colour of the group
}
