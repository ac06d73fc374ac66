// Keys of a table, as the grid pattern of ARIA has them. The table itself keeps the focus, and `aria-activedescendant`
// names the cell that one is in: so it stays where it is while rows come and go.

import { around, seek } from "../shared/dom.js";

/** @typedef {ReturnType<typeof import("./window.js").startWindow>} Window */
/** @typedef {{
 *   select: (row: HTMLElement) => void,
 *   menu: (head: HTMLElement) => void,
 *   fold: (row: HTMLElement, isOpen: boolean) => void,
 * }} Acts */
const HEAD = -1;
/** @type {Record<string, [number, number]>} */
const STEPS = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] };

/** @param {HTMLTableElement} table @param {Window} rows @param {Acts} acts */
export function startKeys(table, rows, acts) {
  const first = seek(table, "th.check") ? 1 : 0; // the column of the names
  const at = { row: 0, column: first };
  /** @type {HTMLElement | null} */
  let cell = null;

  const rowOf = () => (at.row === HEAD ? table.tHead?.rows[0] : rows.rowAt(at.row)) ?? null;
  const numColumns = () => Number(table.getAttribute("aria-colcount"));

  // Marks the cell again: its row may have come, or changed.
  function mark() {
    cell?.classList.remove("is-active");
    cell?.parentElement?.classList.remove("is-at");
    const row = rowOf();
    const wide = row?.querySelector("[colspan]"); // the head of a group
    cell = /** @type {HTMLElement | null} */ (wide ?? row?.children[at.column] ?? null);
    if (!cell) return table.removeAttribute("aria-activedescendant");
    cell.id ||= `cell-${Math.random().toString(36).slice(2)}`;
    cell.classList.add("is-active");
    cell.parentElement?.classList.add("is-at");
    table.setAttribute("aria-activedescendant", cell.id);
  }
  /** @param {number} row @param {number} column */
  function go(row, column) {
    at.row = Math.max(HEAD, Math.min(rows.total() - 1, row));
    at.column = Math.max(0, Math.min(numColumns() - 1, column));
    if (at.row !== HEAD) rows.reach(at.row);
    mark();
    cell?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  /** @param {KeyboardEvent} event @returns {[number, number] | null} */
  function target(event) {
    const isFar = event.ctrlKey || event.metaKey;
    const last = numColumns() - 1;
    if (event.key in STEPS && !isFar) return [at.row + STEPS[event.key][0], at.column + STEPS[event.key][1]];
    if (event.key === "Home") return [isFar ? 0 : at.row, 0];
    if (event.key === "End") return [isFar ? rows.total() - 1 : at.row, last];
    if (event.key === "PageDown") return [Math.max(0, at.row) + rows.pageSize(), at.column];
    if (event.key === "PageUp") return [Math.max(0, at.row - rows.pageSize()), at.column];
    return null;
  }
  /** @param {KeyboardEvent} event */
  function onKey(event) {
    if (event.target !== table) return inside(event);
    const row = rowOf();
    const wanted = target(event);
    if (wanted) {
      if (foldedBy(event, row)) return event.preventDefault();
      const isRange = event.shiftKey && (event.key === "ArrowDown" || event.key === "ArrowUp") && at.row !== HEAD;
      if (isRange && row) acts.select(row);
      go(...wanted);
      const now = rowOf();
      if (isRange && now && at.row !== HEAD) acts.select(now);
    } else if (event.key === " " || (event.key === "x" && !event.ctrlKey && !event.metaKey)) {
      seek(at.row === HEAD && cell ? cell : (row ?? table), at.row === HEAD ? "input" : ".row-check")?.click();
    } else if (event.key === "Enter") enter(event, row);
    else if ((event.key === "m" || event.key === "ContextMenu") && at.row === HEAD && cell) acts.menu(cell);
    else return;
    event.preventDefault();
  }
  /** @param {KeyboardEvent} event @param {HTMLElement | null} row */
  function foldedBy(event, row) {
    const isOpen = row?.getAttribute("aria-expanded");
    if (!row || !isOpen || (event.key !== "ArrowRight" && event.key !== "ArrowLeft")) return false;
    if ((event.key === "ArrowRight") === (isOpen === "true")) return false;
    acts.fold(row, event.key === "ArrowRight");
    return true;
  }
  // Enter sorts in the head, folds a group, goes among the buttons and choices of a cell, and else opens the row.
  /** @param {KeyboardEvent} event @param {HTMLElement | null} row */
  function enter(event, row) {
    if (at.row === HEAD) {
      const link = cell?.querySelector("a, button");
      return link?.dispatchEvent(
        new MouseEvent("click", { bubbles: true, cancelable: true, shiftKey: event.shiftKey }),
      );
    }
    if (row?.matches(".grid-group")) return acts.fold(row, row.getAttribute("aria-expanded") !== "true");
    const first = /** @type {HTMLElement | null} */ (
      cell?.querySelector(cell.matches(".actions-cell") ? "a, button" : "select")
    );
    if (first) return first.focus();
    /** @type {HTMLElement | null | undefined} */
    const link = row?.querySelector("[data-open]");
    link?.click();
  }
  // Among the buttons of a cell: sideways from one to the next, Esc back to the table.
  /** @param {KeyboardEvent} event */
  function inside(event) {
    const focused = /** @type {HTMLElement} */ (event.target);
    const place = focused.closest("td");
    if (!place || !table.contains(place)) return;
    if (event.key === "Escape") {
      event.stopPropagation();
      return table.focus();
    }
    const step = STEPS[event.key]?.[1];
    if (!step) return;
    const all = /** @type {HTMLElement[]} */ ([...place.querySelectorAll("a, button, input, select")]);
    all[(all.indexOf(focused) + step + all.length) % all.length]?.focus();
    event.preventDefault();
  }
  // A click makes its cell the one that keys go on from.
  /** @param {MouseEvent} event */
  function onClick(event) {
    const clicked = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest("td, th"));
    const row = /** @type {HTMLTableRowElement | null} */ (clicked?.parentElement ?? null);
    if (!clicked || !row || row.classList.contains("grid-space")) return;
    at.row = row.dataset.place === undefined ? HEAD : Number(row.dataset.place);
    at.column = [...row.children].indexOf(clicked);
    mark();
  }
  table.addEventListener("keydown", onKey);
  table.addEventListener("click", onClick);
  return {
    mark,
    reset() {
      Object.assign(at, { row: 0, column: first });
      mark();
    },
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
