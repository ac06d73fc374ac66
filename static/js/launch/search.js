// Search in the folded fields of the launch form: opens the groups, and shows the fields whose label, path or help has
// the words.
import { all, need, put } from "../shared/dom.js";

/** @param {HTMLElement} box */
export function mount(box) {
  const input = /** @type {HTMLInputElement} */ (need(box, "input"));
  const form = /** @type {HTMLFormElement} */ (box.closest("form"));
  const folds = /** @type {HTMLDetailsElement[]} */ (all(form, ".launch-group, .launch-group .advanced"));
  /** @type {HTMLDetailsElement[] | null} */
  let before = null; // those that were open

  /** @param {Event} event */
  function onInput(event) {
    event.stopPropagation(); // nothing of the spec was typed
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    before ??= folds.filter((fold) => fold.open);
    for (const fold of folds) {
      fold.classList.remove("is-unfound");
      fold.open = words.length > 0 || before.includes(fold);
    }
    const found = all(form, ".launch-group .field[data-path]").filter((field) => {
      const isFound = words.every((word) => textOf(field).includes(word));
      field.classList.toggle("is-unfound", !isFound);
      return isFound && field.checkVisibility();
    });
    put(need(box, "[role=status]"), words.length ? counted(found.length) : "");
    if (!words.length) before = null;
    for (const fold of folds)
      fold.classList.toggle("is-unfound", before !== null && !found.some((field) => fold.contains(field)));
  }
  input.addEventListener("input", onInput);
}

/** @param {HTMLElement} field */
function textOf(field) {
  const parts = all(field, "label, legend, .help").map((one) => one.textContent);
  return [field.dataset.path, ...parts].join(" ").toLowerCase();
}

/** @param {number} number */
function counted(number) {
  if (!number) return "No field has these words.";
  return `${number} ${number === 1 ? "field" : "fields"}`;
}
