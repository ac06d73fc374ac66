// The fields of the launch form: which of them the chosen kind of task reads, and what they say for it.

import { all, need } from "../shared/dom.js";

/** @typedef {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} Control */

// The control of that name; of radio buttons it is their list, which has a value too.
/** @param {HTMLFormElement} form @param {string} name */
export function control(form, name) {
  return /** @type {HTMLInputElement} */ (form.elements.namedItem(name));
}

// Shows the fields that something reads, as far as the others say; what was typed into a hidden one stays there.
/** @param {HTMLFormElement} form */
export function showNeeded(form) {
  const kind = kindOf(form);
  for (const field of all(form, "[data-needs]")) {
    const { needs = "", needsValues, needsAbove, needsDefault = "", needing = "", namedBy } = field.dataset;
    const value = control(form, needs).value.trim() || needsDefault;
    const isNamed = Boolean(namedBy && control(form, namedBy).value);
    const isMet =
      isNamed || (needsValues ? needsValues.split(" ").includes(value) : Number(value) > Number(needsAbove));
    field.hidden = needing.split(" ").includes(kind) && !isMet;
  }
}

// Offers in each list what the kind and the project have, and puts its own default where that of the kind before still
// stands.
/** @param {HTMLFormElement} form @param {string} before */
export function showKind(form, before) {
  const kind = kindOf(form);
  for (const name of ["task", "project"])
    for (const option of /** @type {HTMLOptionElement[]} */ (all(form, `option[data-${name}s]`)))
      option.hidden = option.disabled = !option.dataset[`${name}s`]?.split(" ").includes(control(form, name).value);
  for (const field of all(form, "[data-defaults]")) {
    /** @type {Record<string, string>} */
    const defaults = JSON.parse(field.dataset.defaults ?? "{}");
    const input = /** @type {Control} */ (need(field, "[name]"));
    if (kind in defaults && (isLost(input) || (before in defaults && input.value === defaults[before])))
      input.value = defaults[kind];
  }
  const name = control(form, "name");
  if (before !== kind && (name.value === name.defaultValue || name.value === before)) {
    name.value = kind === first(form) ? name.defaultValue : kind;
  }
  for (const select of form.querySelectorAll("select")) {
    const usable = [...select.options].find((option) => !option.disabled);
    if (usable && isLost(select)) select.value = usable.value;
  }
}

// Puts in each field the text that a map says by the field's path.
/** @param {HTMLFormElement} form @param {Record<string, string>} texts */
export function fill(form, texts) {
  for (const [path, text] of Object.entries(texts)) {
    const input = control(form, path);
    if (!input) continue;
    if (input.type === "checkbox") input.checked = text === "on";
    else input.value = text;
  }
}

// Opens the groups that an element is folded in.
/** @param {Element} element */
export function reveal(element) {
  for (let fold = element.closest("details"); fold; fold = fold.parentElement?.closest("details") ?? null)
    fold.open = true;
}

// Whether a list stands on nothing that the kind has.
/** @param {Control} input */
function isLost(input) {
  return input instanceof HTMLSelectElement && (input.selectedOptions[0]?.disabled ?? true);
}

// The kind that the page came with.
/** @param {HTMLFormElement} form */
function first(form) {
  const kinds = /** @type {HTMLInputElement[]} */ (all(form, "[name=task]"));
  return kinds.find((input) => input.defaultChecked)?.value;
}

/** @param {HTMLFormElement} form */
export function kindOf(form) {
  return control(form, "task").value;
}
