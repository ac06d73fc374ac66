// Fields that vary: the button beside a field turns its one value into a range or a choice. The rows are the form's,
// `space:low:PATH` and so on, as dashboard/pages/launch/space_entries.py reads them.
import { all, around, make, need, say, seek } from "../shared/dom.js";
import { reveal } from "./fields.js";

/** @typedef {{path: string, low: string, high: string, log: boolean, whole: boolean, values: string, step: string,
 *   when: string, problem?: string}} Entry */

/** @param {HTMLElement} card */
export function mount(card) {
  const form = /** @type {HTMLFormElement} */ (card.closest("form"));
  const template = /** @type {HTMLTemplateElement} */ (form.querySelector("#vary-row"));
  const whenTemplate = /** @type {HTMLTemplateElement} */ (form.querySelector("#vary-when"));
  const others = need(card, "[data-vary-rows]");
  const summary = need(card, "[data-vary-summary]");
  const otherPath = /** @type {HTMLInputElement} */ (card.querySelector("[data-vary-path]"));

  /** @param {Entry} entry */
  function add(entry) {
    if (form.querySelector(`[data-vary-row][data-path="${CSS.escape(entry.path)}"]`)) return;
    const row = /** @type {HTMLElement} */ (
      /** @type {Element} */ (template.content.firstElementChild).cloneNode(true)
    );
    row.dataset.path = entry.path;
    fill(row, entry);
    fillConditions(row, whenTemplate);
    const field = fieldOf(entry.path);
    if (field) {
      field.classList.add("is-varied");
      field.querySelector("label")?.closest(".label-line")?.after(row);
      row.classList.toggle("is-choice", isChoice(field));
      reveal(field);
    } else {
      others.append(row);
      const name = need(row, "[data-vary-name]");
      name.textContent = entry.path;
      name.hidden = false;
    }
    show();
  }
  /** @param {HTMLElement} row */
  function remove(row) {
    fieldOf(row.dataset.path ?? "")?.classList.remove("is-varied");
    row.remove();
    show();
  }
  // The card, the buttons at the side and the hint follow what varies.
  function show() {
    const isSweep = seek(form, "[data-vary-row]") !== null;
    if (isSweep) card.hidden = false;
    need(card, "[data-vary-hint]").hidden = isSweep;
    sum();
    offer();
    for (const button of all(form, "[data-for-run], [data-for-sweep]"))
      button.hidden = (button.dataset.forSweep === undefined) !== card.hidden;
    const mark = /** @type {HTMLInputElement | null} */ (form.querySelector("[data-is-sweep]"));
    if (mark) mark.disabled = Boolean(card.hidden);
  }
  // Each row may depend on the others that have values.
  function offer() {
    const rows = all(form, "[data-vary-row]");
    const choices = rows.flatMap((row) => {
      const values = /** @type {HTMLInputElement} */ (row.querySelector("[data-part=values]")).value;
      const path = row.dataset.path ?? "";
      const label = fieldOf(path)?.querySelector("label")?.textContent?.trim() || path;
      return values.trim() ? [{ path, label, values }] : [];
    });
    for (const row of rows) offerChoices(row, choices);
  }
  // The fields below that vary, each as a link to its row.
  function sum() {
    const names = [...form.querySelectorAll(".field.is-varied")].map((field) => {
      const label = field.querySelector("label")?.textContent?.trim() ?? "";
      const id = field.querySelector("label")?.getAttribute("for") ?? "";
      return make("a", { textContent: label, href: `#${id}`, className: "tag" });
    });
    summary.replaceChildren(...(names.length ? ["Varying ", ...names] : []));
    summary.hidden = !names.length;
  }
  /** @param {MouseEvent} event */
  function onSummary(event) {
    const link = /** @type {HTMLAnchorElement | null} */ (around(event, "a"));
    if (!link) return;
    event.preventDefault();
    const field = form.querySelector(`[id="${link.hash.slice(1)}"]`)?.closest(".field");
    if (field) reveal(field);
    field?.scrollIntoView({ block: "center" });
    if (field) seek(field, "[data-part=low], [data-part=values]")?.focus();
  }
  /** @param {string} path @returns {HTMLElement | null} */
  function fieldOf(path) {
    return form.querySelector(`.field[data-path="${CSS.escape(path)}"]:has([data-vary-on])`);
  }
  function changed() {
    otherPath.dispatchEvent(new Event("input", { bubbles: true })); // the preview is fetched anew
  }
  /** @param {MouseEvent} event */
  function onClick(event) {
    const target = /** @type {Element} */ (event.target);
    const path = target.closest("[data-vary-on]")?.closest(".field")?.getAttribute("data-path");
    const row = /** @type {HTMLElement | null} */ (
      target.closest("[data-vary-off]") && target.closest("[data-vary-row]")
    );
    if (path) {
      add(suggested(path, /** @type {HTMLElement} */ (fieldOf(path))));
      seek(form, `[data-vary-row][data-path="${CSS.escape(path)}"] input:not([type=hidden])`)?.focus();
    } else if (row) remove(row);
    else if (target.closest("[data-when-add], [data-when-off]")) changeConditions(target);
    else if (target.closest("[data-vary-add]")) addOther();
    else return;
    changed();
  }
  /** @param {Element} target */
  function changeConditions(target) {
    const row = /** @type {HTMLElement} */ (target.closest("[data-vary-row]"));
    if (target.closest("[data-when-add]")) addCondition(row, whenTemplate).querySelector("select")?.focus();
    else target.closest("[data-condition]")?.remove();
    offer();
  }
  /** @param {Event} event */
  function onInput({ target }) {
    if (!(target instanceof HTMLInputElement || target instanceof HTMLSelectElement)) return;
    const line = /** @type {HTMLElement | null} */ (target.closest("[data-condition]"));
    if (line && target.matches("input")) line.dataset.isTyped = "yes";
    if (line && target.matches("select")) /** @type {HTMLInputElement} */ (line.querySelector("input")).value = "";
    if (line && target.matches("select")) delete line.dataset.isTyped;
    if (line && target.matches("input")) keep(/** @type {HTMLElement} */ (line.closest("[data-vary-row]")));
    else if (line || target.dataset.part === "values") offer();
  }
  function addOther() {
    const path = otherPath.value.trim();
    if (!path) return otherPath.focus();
    const field = fieldOf(path);
    add(field ? suggested(path, field) : empty(path));
    otherPath.value = "";
  }
  /** @param {KeyboardEvent} event */
  function onKey(event) {
    if (event.key !== "Enter" || event.target !== otherPath) return;
    event.preventDefault();
    addOther();
    changed();
  }

  for (const entry of JSON.parse(card.dataset.entries || "[]")) add(entry);
  for (const room of all(form, ".vary-room")) room.replaceWith(...room.children);
  show();
  summary.addEventListener("click", onSummary);
  form.addEventListener("click", onClick);
  form.addEventListener("keydown", onKey);
  form.addEventListener("input", onInput);
  return () => {
    form.removeEventListener("click", onClick);
    form.removeEventListener("keydown", onKey);
    form.removeEventListener("input", onInput);
  };
}

/** @param {HTMLElement} row @param {Entry} entry */
function fill(row, entry) {
  for (const input of /** @type {HTMLInputElement[]} */ (all(row, "[data-part]"))) {
    const part = /** @type {keyof Entry} */ (input.dataset.part ?? "path");
    if (part !== "path") input.name = `space:${part}:${entry.path}`;
    if (input.type === "checkbox") input.checked = Boolean(entry[part]);
    else input.value = String(entry[part] ?? "");
  }
  say(need(row, ".problem"), entry.problem ?? "");
}

/** @param {string} path @returns {Entry} */
function empty(path) {
  return { path, low: "", high: "", log: false, whole: false, values: "", step: "", when: "" };
}

/** @param {HTMLElement} field */
function isChoice(field) {
  return Boolean(field.querySelector("select:not([data-condition-path]), [type=checkbox]:not([data-part])"));
}

// What one would try around the value that is there.
/** @param {string} path @param {HTMLElement} field @returns {Entry} */
function suggested(path, field) {
  const list = field.querySelector("select");
  if (list) {
    const offered = [...list.options].filter((one) => !one.disabled && one.value);
    return { ...empty(path), values: offered.map((one) => one.value).join(", ") };
  }
  const input = /** @type {HTMLInputElement} */ (field.querySelector("input:not([data-part])"));
  if (input.type === "checkbox") return { ...empty(path), values: "true, false" };
  return suggestedAround(path, Number(input.value), input.inputMode === "numeric");
}

// A whole number from a half to the double; another over two factors of ten.
/** @param {string} path @param {number} value @param {boolean} isWhole @returns {Entry} */
export function suggestedAround(path, value, isWhole) {
  if (!(value > 0)) return { ...empty(path), low: "0", high: isWhole ? "10" : "1", whole: isWhole };
  if (!isWhole) {
    const [low, high] = [value / 10, value * 10].map((one) => String(Number(one.toPrecision(3))));
    return { ...empty(path), low, high, log: true };
  }
  const low = Math.max(1, Math.floor(value / 2));
  return { ...empty(path), low: String(low), high: String(Math.max(low + 1, value * 2)), whole: true };
}

// Conditions of a field that varies ("only when optimizer is adamw"): lines of a list and a text each, kept as JSON in
// the row's hidden field, as dashboard/pages/launch/space_entries.py reads it. A condition needs a field with values.

/** @typedef {{path: string, label: string, values: string}} Choice */

// What the text means: JSON between commas, and else text, as the server reads it.
/** @param {string} text @returns {unknown[]} */
export function valuesIn(text) {
  try {
    return JSON.parse(`[${text}]`);
  } catch {
    const parts = text.split(",").map((part) => part.trim());
    return parts.filter(Boolean).map(plain);
  }
}

/** @param {string} text @returns {unknown} */
function plain(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

// The text of which valuesIn makes these values again.
/** @param {unknown} condition */
export function written(condition) {
  const values = Array.isArray(condition) ? condition : [condition];
  const texts = values.map((one) => (typeof one === "string" ? one : JSON.stringify(one)));
  const isPlain = JSON.stringify(valuesIn(texts.join(", "))) === JSON.stringify(values);
  return isPlain ? texts.join(", ") : values.map((one) => JSON.stringify(one)).join(", ");
}

// The lines of a row for the JSON that it has.
/** @param {HTMLElement} row @param {HTMLTemplateElement} template */
function fillConditions(row, template) {
  const found = plain(hidden(row).value || "{}");
  for (const [path, condition] of Object.entries(/** @type {object} */ (found))) {
    addCondition(row, template, path, written(condition));
  }
}

/** @param {HTMLElement} row @param {HTMLTemplateElement} template @param {string} [path] @param {string} [values] */
function addCondition(row, template, path = "", values = "") {
  const line = /** @type {HTMLElement} */ (/** @type {Element} */ (template.content.firstElementChild).cloneNode(true));
  line.dataset.wanted = path;
  /** @type {HTMLInputElement} */ (line.querySelector("[data-condition-values]")).value = values;
  row.querySelector("[data-conditions]")?.append(line);
  return line;
}

// Offers in each line the fields that a condition may name, and in a new one the first of their values.
/** @param {HTMLElement} row @param {Choice[]} choices */
function offerChoices(row, choices) {
  const others = choices.filter((one) => one.path !== row.dataset.path);
  for (const line of all(row, "[data-condition]")) {
    const { list, input } = partsOf(line);
    const wanted = list.value || line.dataset.wanted || others[0]?.path || "";
    const known = others.some((one) => one.path === wanted) || !wanted ? others : [...others, missing(wanted)];
    list.replaceChildren(...known.map(({ label, path }) => new Option(label, path)));
    list.value = wanted;
    input.placeholder = others.find((one) => one.path === wanted)?.values ?? "";
    if (!input.value && !line.dataset.isTyped) input.value = written(valuesIn(input.placeholder).slice(0, 1));
  }
  const button = seek(row, "[data-when-add]");
  if (button) button.hidden = others.length === 0;
  keep(row);
}

// Writes what the lines say into the row's hidden field.
/** @param {HTMLElement} row */
function keep(row) {
  /** @type {Record<string, unknown>} */
  const found = {};
  for (const line of all(row, "[data-condition]")) {
    const { list, input } = partsOf(line);
    const values = valuesIn(input.value);
    if (list.value && values.length) found[list.value] = values.length === 1 ? values[0] : values;
  }
  hidden(row).value = Object.keys(found).length ? JSON.stringify(found) : "";
}

/** @param {HTMLElement} line */
function partsOf(line) {
  return {
    list: /** @type {HTMLSelectElement} */ (line.querySelector("[data-condition-path]")),
    input: /** @type {HTMLInputElement} */ (line.querySelector("[data-condition-values]")),
  };
}

/** @param {HTMLElement} row */
function hidden(row) {
  return /** @type {HTMLInputElement} */ (row.querySelector("[data-part=when]"));
}

// A field that varies no more, or has no values: it stays to be seen, with the problem that the server names.
/** @param {string} path @returns {Choice} */
function missing(path) {
  return { path, label: path, values: "" };
}
