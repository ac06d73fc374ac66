// Rows of a queue: one that is dragged onto another, or moved by Alt with an arrow, gets the priority that brings it
// past that one, through the form of its row.
import { around, seek } from "../shared/dom.js";

/** @param {HTMLElement} element */
export function mount(element) {
  /** @type {HTMLElement | null} */
  let dragged = null;

  /** @param {Event} event */
  const rowAt = (event) => around(event, "tr[data-run]");
  /** @param {HTMLElement | null} target */
  function mark(target) {
    for (const row of element.querySelectorAll("tr[data-run]")) {
      row.classList.toggle("is-target", row === target);
      row.classList.toggle("is-dragged", row === dragged);
    }
  }
  /** @param {HTMLElement} row @param {HTMLElement} target */
  function move(row, target) {
    const form = /** @type {HTMLFormElement | null} */ (seek(row, "form"));
    const beside = /** @type {HTMLInputElement | null} */ (form && seek(form, "[name=beside]"));
    if (!form || !beside) return;
    beside.value = target.dataset.run ?? "";
    beside.disabled = false;
    form.noValidate = true; // the number in the row is not what is sent
    form.requestSubmit();
    form.noValidate = false;
    beside.disabled = true;
  }
  /** @param {DragEvent} event */
  function onDrag(event) {
    const row = rowAt(event);
    if (event.type === "dragstart") {
      dragged = around(event, "[draggable]") && row;
      event.dataTransfer?.setData("text/plain", row?.querySelector(".name")?.textContent ?? "");
    } else if (event.type === "dragover") {
      if (!dragged) return;
      if (row && row !== dragged) event.preventDefault();
    } else if (event.type === "drop") {
      event.preventDefault();
      if (dragged?.isConnected && row && row !== dragged) move(dragged, row);
      dragged = null;
    } else dragged = null; // dragend
    mark(dragged && row !== dragged ? row : null);
  }
  /** @param {KeyboardEvent} event */
  function onKey(event) {
    if (!event.altKey || !["ArrowUp", "ArrowDown"].includes(event.key)) return;
    const row = rowAt(event);
    if (!row || !around(event, "[name=priority]")) return;
    event.preventDefault();
    const rows = /** @type {HTMLElement[]} */ ([...element.querySelectorAll("tr[data-run]")]);
    const target = rows[rows.indexOf(row) + (event.key === "ArrowUp" ? -1 : 1)];
    if (target) move(row, target);
  }

  for (const type of ["dragstart", "dragover", "drop", "dragend"])
    element.addEventListener(type, /** @type {EventListener} */ (onDrag));
  element.addEventListener("keydown", onKey);
}
