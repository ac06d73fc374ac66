// The table of the runs as the server draws it, in step with the charts.
import { all, need } from "../shared/dom.js";
import { groupColours } from "../shared/grouping.js";

/** @typedef {{id: string, colour: number, fields: Record<string, string>, isLive?: boolean}} ListedRun */
/** @typedef {{by: string, band: string}} Grouping */
/** @typedef {{hidden: string[], colours: Record<string, number>, group: Grouping | null}} ChartState */

/** The runs as the server lists them. @param {ParentNode} list @returns {ListedRun[]} */
export const listedRuns = (list) => JSON.parse(list.querySelector("#compared-runs")?.textContent ?? "[]");

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

// The server's newest list, with the rows of deleted runs, which stay until they are taken out.
/** @param {string} html @param {ParentNode} list @param {string[]} runs */
export function withGone(html, list, runs) {
  const template = document.createElement("template");
  template.innerHTML = html;
  const fresh = new Set(all(template.content, ".grid-row").map(({ dataset }) => dataset.key));
  for (const row of all(list, ".grid-row")) {
    if (!runs.includes(row.dataset.key ?? "") || fresh.has(row.dataset.key)) continue;
    const gone = /** @type {HTMLElement} */ (row.cloneNode(true));
    gone.classList.add("is-gone");
    need(gone, '[data-of="status"]').textContent = "Deleted. What was drawn stays until you take it out.";
    template.content.querySelector("tbody")?.append(gone);
  }
  return template.innerHTML;
}

// What is shown, colours and groups as the charts' state has them.
/** @param {HTMLElement} element @param {ListedRun[]} runs @param {ChartState} state */
export function paint(element, runs, state) {
  const hidden = new Set(state.hidden);
  const by = state.group?.by ?? "";
  const ofGroups = by ? groupColours(runs, by) : null;
  const own = new Map(runs.map(({ id, colour }) => [id, state.colours?.[id] ?? colour]));
  /** @type {number | null} */
  let ofGroup = null;
  for (const row of all(element, ".grid-group, .grid-row")) {
    const { key = "", group } = row.dataset;
    if (group !== undefined) ofGroup = ofGroups?.get(group) ?? null;
    else show(row, !hidden.has(key), ofGroup !== null);
    tint(row, ofGroup ?? own.get(key) ?? 0);
  }
  const eyes = element.querySelector("[data-eyes]");
  if (eyes) eyes.textContent = runs.some(({ id }) => hidden.has(id)) ? "Show all" : "Hide all";
  for (const dot of all(element, "[data-dot]")) tint(dot, own.get(dot.dataset.dot ?? "") ?? 0);
}

/** With these runs shown where any of them is hidden, else hidden. @param {string[]} hidden @param {string[]} ids */
export function toggled(hidden, ids) {
  const others = hidden.filter((id) => !ids.includes(id));
  return others.length < hidden.length ? others : [...hidden, ...ids];
}

// A line of a group has the colour of the group: there is none to choose.
/** @param {HTMLElement} row @param {boolean} isShown @param {boolean} isGroups */
function show(row, isShown, isGroups) {
  row.classList.toggle("is-hidden", !isShown);
  row.setAttribute("aria-selected", String(isShown));
  const box = /** @type {HTMLInputElement} */ (need(row, ".row-check"));
  box.checked = box.defaultChecked = isShown; // what differs from this is what a person does
  /** @type {HTMLButtonElement} */ (need(row, "[data-pick]")).disabled = isGroups;
}

/** @param {HTMLElement} element @param {number} index */
function tint(element, index) {
  for (const name of [...element.classList]) if (name.startsWith("series-")) element.classList.remove(name);
  element.classList.add(`series-${index + 1}`);
}
