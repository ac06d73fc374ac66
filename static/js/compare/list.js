// The list of the runs as the server draws it, in step with the charts.
import { groupColours } from "../shared/grouping.js";

// The runs of the list, for the charts: those that the server has, and deleted ones as they were.
export function knownRuns(list, before, ids) {
  const listed = JSON.parse(list.querySelector("#compared-runs")?.textContent ?? "[]");
  const here = new Map([
    ...before.map((run) => [run.id, { ...run, isLive: false }]),
    ...listed.map((run) => [run.id, run]),
  ]);
  return ids.filter((id) => here.has(id)).map((id) => here.get(id));
}

// The server's newest list, with the rows of deleted runs, which stay until they are closed.
export function withGone(html, list, runs) {
  const template = document.createElement("template");
  template.innerHTML = html;
  const fresh = template.content.querySelector("[data-runs]");
  for (const row of list.querySelectorAll("[data-run]")) {
    const id = row.dataset.run;
    if (!runs.includes(id) || template.content.querySelector(`[data-run="${CSS.escape(id)}"]`)) continue;
    fresh?.append(gone(row.cloneNode(true)));
  }
  return template.innerHTML;
}

function gone(row) {
  row.classList.add("is-gone");
  const facts = row.querySelector(".compare-facts");
  const words = document.createElement("span");
  words.textContent = "Deleted. What was drawn stays until you take it out.";
  facts.replaceChildren(words);
  const name = row.querySelector("a.name");
  if (!name) return row;
  const still = document.createElement("span"); // there is nothing to open any more
  still.className = "name clip";
  still.textContent = name.textContent;
  name.replaceWith(still);
  return row;
}

// Eyes, colours and groups as the charts' state has them.
export function paint(element, runs, state) {
  const hidden = new Set(state.hidden);
  const by = state.group?.by ?? "";
  const ofGroups = by ? groupColours(runs, by) : null;
  let ofGroup = null;
  for (const row of element.querySelectorAll("[data-group], [data-run]")) {
    if (row.dataset.group !== undefined) ofGroup = ofGroups?.get(row.dataset.group) ?? null;
    else press(row, !hidden.has(row.dataset.run));
    tint(row.querySelector(".run-dot"), ofGroup ?? colourOf(row, state), ofGroup !== null);
  }
  const all = element.querySelector("[data-eyes]");
  if (all) all.textContent = runs.some(({ id }) => hidden.has(id)) ? "Show all" : "Hide all";
  for (const dot of element.querySelectorAll("[data-dot]")) {
    const row = element.querySelector(`[data-run="${CSS.escape(dot.dataset.dot)}"]`);
    if (row) tint(dot, colourOf(row, state));
  }
}

// The lines of the row that is pointed at, as the charts' crosshair lights them; null where none is.
export function lineAt(event) {
  const at = event.type.endsWith("out") ? event.relatedTarget : event.target; // within a row nothing changes
  const row = event.currentTarget.contains(at) ? at.closest("[data-run], [data-group]") : null;
  if (!row) return null;
  const { run, group } = row.dataset;
  return run ? { key: `run ${run}`, runs: [run] } : { key: `group ${group}`, runs: [] };
}

// With these runs shown where any of them is hidden, else hidden.
export function toggled(hidden, ids) {
  const others = hidden.filter((id) => !ids.includes(id));
  return others.length < hidden.length ? others : [...hidden, ...ids];
}

export function colourOf(row, state) {
  return state.colours?.[row.dataset.run] ?? Number(row.dataset.colour);
}

function press(row, isShown) {
  row.classList.toggle("is-hidden", !isShown);
  row.querySelector("[data-eye]").setAttribute("aria-pressed", isShown);
}

function tint(dot, index, isGroups = false) {
  for (const name of [...dot.classList]) if (name.startsWith("series-")) dot.classList.remove(name);
  dot.classList.add(`series-${index + 1}`);
  if (dot.dataset.pick !== undefined) dot.disabled = isGroups; // a line of a group has the group's colour
}
