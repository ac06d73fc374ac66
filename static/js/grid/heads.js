// What one does with a column at its head: a menu, and its edge, which one drags.

import { all, around, need, seek } from "../shared/dom.js";
import { change, columnsOf, quoted, written } from "./address.js";
import { startSpread } from "./spread.js";

const STEP = 40; // pixels, by the menu
const LEAST = 48;

/** @param {HTMLTableElement} table @param {HTMLElement} place */
export function startHeads(table, place) {
  const menu = need(place, "#grid-menu");
  let name = "";

  const head = () => all(table, "th[data-of]").find((one) => one.dataset.of === name);
  /** @param {(columns: import("./address.js").Chosen[], at: number) => void} edit */
  function edited(edit) {
    const columns = columnsOf(table);
    const at = columns.findIndex((one) => one.name === name);
    edit(columns, at);
    return { columns: written(columns) };
  }
  /** @param {number} by */
  const moved = (by) => edited((columns, at) => columns.splice(Math.max(0, at + by), 0, ...columns.splice(at, 1)));
  /** @param {number} width */
  const sized = (width) => edited((columns, at) => (columns[at].width = Math.max(LEAST, Math.round(width))));
  const width = () => head()?.offsetWidth ?? 0;
  /** @type {Record<string, () => Record<string, string>>} */
  const acts = {
    ascending: () => ({ sort: quoted(name) }),
    descending: () => ({ sort: `-${quoted(name)}` }),
    group: () => ({
      group: [new URLSearchParams(location.search).get("group") ?? "", quoted(name)].filter(Boolean).join(),
    }),
    colour: () => ({ colour: name }),
    pin: () => edited((columns, at) => (columns[at].isPinned = !columns[at].isPinned)),
    hide: () => edited((columns, at) => columns.splice(at, 1)),
    left: () => moved(-1),
    right: () => moved(1),
    wider: () => sized(width() + STEP),
    narrower: () => sized(width() - STEP),
  };
  /** @param {HTMLElement} cell */
  function open(cell) {
    const button = seek(cell, "[popovertarget]");
    button?.focus();
    button?.click();
  }
  /** @param {ToggleEvent} event */
  function onToggle(event) {
    if (event.newState === "closed") return void (menu.contains(document.activeElement) && table.focus());
    const cell = /** @type {HTMLElement | null | undefined} */ (document.activeElement?.closest("th"));
    name = cell?.dataset.of ?? "";
    need(menu, "header").textContent = name;
    const kinds = (cell?.dataset.can ?? "").split(" ");
    for (const item of all(menu, "[data-for]")) item.hidden = !kinds.includes(item.dataset.for ?? "");
    if (kinds.includes("spread")) draw(name);
  }
  /** @param {Event} event */
  async function onAct(event) {
    const act = around(event, "[data-do]")?.dataset.do ?? "";
    if (!act) return;
    menu.hidePopover();
    if (act === "filter") return filter();
    table.focus();
    if (acts[act]) await change(place, acts[act]());
  }
  // The name stands in the field, for one to go on from.
  function filter() {
    const field = /** @type {HTMLInputElement} */ (need(place, "[data-filter-key]"));
    const before = field.value.trim();
    field.value = `${before ? `${before} and ` : ""}${/[\s"'()<>=!~,]/.test(name) ? `"${name}"` : name} `;
    field.focus();
    field.setSelectionRange(field.value.length, field.value.length);
    field.dispatchEvent(new Event("complete"));
  }
  /** @param {PointerEvent} event */
  function onDown(event) {
    const edge = around(event, "[data-edge]");
    const cell = edge?.closest("th");
    if (!edge || !cell) return;
    event.preventDefault();
    name = cell.dataset.of ?? "";
    const column = /** @type {HTMLElement} */ (table.querySelectorAll("col")[cell.cellIndex]);
    const start = event.clientX - cell.offsetWidth;
    let wanted = cell.offsetWidth;
    edge.setPointerCapture(event.pointerId);
    edge.onpointermove = ({ clientX }) => {
      wanted = Math.max(LEAST, clientX - start);
      column.setAttribute("width", String(wanted));
    };
    edge.onlostpointercapture = () => {
      edge.onpointermove = edge.onlostpointercapture = null;
      change(place, sized(wanted));
    };
  }
  const draw = startSpread(menu, place);
  menu.addEventListener("beforetoggle", onToggle);
  menu.addEventListener("click", onAct);
  table.addEventListener("pointerdown", onDown);
  return { open };
}
