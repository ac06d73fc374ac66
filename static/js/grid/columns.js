// The panel in which one chooses columns among all fields, and what the table is grouped by.

import { newest } from "../frame/search.js";
import { around, need } from "../shared/dom.js";
import { change, columnsOf, quoted, written } from "./address.js";
import { known } from "./names.js";

const MOST_SHOWN = 200;

/** @param {HTMLTableElement} table @param {HTMLElement} place */
export function startColumns(table, place) {
  const panel = need(place, "#grid-columns");
  const search = /** @type {HTMLInputElement} */ (need(panel, "input[type=search]"));
  const list = need(panel, "[data-list]");
  const line = /** @type {HTMLTemplateElement} */ (need(panel, "template"));

  let drawn = "";

  async function draw() {
    const { names } = await known(table);
    const alone = new Set(names.filter(({ kind }) => kind === "column").map(({ name }) => name));
    const chosen = columnsOf(table).map((one) => one.name);
    const others = names.map((one) => one.name).filter((name) => !chosen.includes(name));
    const words = search.value.toLowerCase().split(/\s+/);
    const found = [...chosen, ...others].filter((name) => words.every((word) => name.toLowerCase().includes(word)));
    const shown = found.slice(0, MOST_SHOWN);
    if (shown.join("\n") === drawn) return; // the line that has the focus stays
    drawn = shown.join("\n");
    list.replaceChildren(...shown.map((name) => lineOf(name, chosen.includes(name), !alone.has(name))));
    need(panel, "[data-found]").textContent =
      found.length > MOST_SHOWN ? `The first ${MOST_SHOWN} of ${found.length} fields` : `${found.length} fields`;
  }
  // The lines stay where they are while one chooses among them.
  function tick() {
    const chosen = new Set(columnsOf(table).map((one) => one.name));
    for (const box of list.querySelectorAll("input")) box.checked = chosen.has(box.value);
  }
  /** @param {string} name @param {boolean} isChosen @param {boolean} isField whether runs are grouped by it */
  function lineOf(name, isChosen, isField) {
    const made = /** @type {HTMLElement} */ (/** @type {Element} */ (line.content.firstElementChild).cloneNode(true));
    const box = /** @type {HTMLInputElement} */ (need(made, "input"));
    Object.assign(box, { value: name, checked: isChosen, disabled: name === "name" });
    need(made, "[data-name]").textContent = name;
    const button = need(made, "button");
    button.dataset.group = name;
    button.setAttribute("aria-label", `Group by ${name}`);
    button.hidden = !isField;
    return made;
  }
  /** @param {Event} event */
  function onChange(event) {
    const box = /** @type {HTMLInputElement} */ (event.target);
    if (box === search) return;
    const columns = columnsOf(table).filter((one) => one.name !== box.value);
    if (box.checked) columns.push({ name: box.value, width: 0, isPinned: false });
    change(place, { columns: written(columns) });
  }
  /** @param {Event} event */
  function onClick(event) {
    const name = around(event, "[data-group]")?.dataset.group;
    if (name === undefined) return;
    const before = new URL(newest(), location.href).searchParams.get("group") ?? "";
    panel.hidePopover();
    table.focus();
    change(place, { group: before ? `${before},${quoted(name)}` : quoted(name), open: "" });
  }
  /** @param {ToggleEvent} event */
  function onToggle(event) {
    if (event.newState !== "open") return;
    drawn = ""; // columns may have changed otherwise
    draw();
  }
  place.addEventListener("shown", tick);
  panel.addEventListener("toggle", onToggle);
  panel.addEventListener("change", onChange);
  panel.addEventListener("click", onClick);
  search.addEventListener("input", draw);
}
