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
export function fillConditions(row, template) {
  const found = plain(hidden(row).value || "{}");
  for (const [path, condition] of Object.entries(/** @type {object} */ (found))) {
    addCondition(row, template, path, written(condition));
  }
}

/** @param {HTMLElement} row @param {HTMLTemplateElement} template @param {string} [path] @param {string} [values] */
export function addCondition(row, template, path = "", values = "") {
  const line = /** @type {HTMLElement} */ (/** @type {Element} */ (template.content.firstElementChild).cloneNode(true));
  line.dataset.wanted = path;
  /** @type {HTMLInputElement} */ (line.querySelector("[data-condition-values]")).value = values;
  row.querySelector("[data-conditions]")?.append(line);
  return line;
}

// Offers in each line the fields that a condition may name, and in a new one the first of their values.
/** @param {HTMLElement} row @param {Choice[]} choices */
export function offerChoices(row, choices) {
  const others = choices.filter((one) => one.path !== row.dataset.path);
  for (const line of lines(row)) {
    const { list, input } = partsOf(line);
    const wanted = list.value || line.dataset.wanted || others[0]?.path || "";
    const known = others.some((one) => one.path === wanted) || !wanted ? others : [...others, missing(wanted)];
    list.replaceChildren(...known.map(({ label, path }) => new Option(label, path)));
    list.value = wanted;
    input.placeholder = others.find((one) => one.path === wanted)?.values ?? "";
    if (!input.value && !line.dataset.isTyped) input.value = written(valuesIn(input.placeholder).slice(0, 1));
  }
  const button = /** @type {HTMLElement | null} */ (row.querySelector("[data-when-add]"));
  if (button) button.hidden = others.length === 0;
  keep(row);
}

// Writes what the lines say into the row's hidden field.
/** @param {HTMLElement} row */
export function keep(row) {
  /** @type {Record<string, unknown>} */
  const found = {};
  for (const line of lines(row)) {
    const { list, input } = partsOf(line);
    const values = valuesIn(input.value);
    if (list.value && values.length) found[list.value] = values.length === 1 ? values[0] : values;
  }
  hidden(row).value = Object.keys(found).length ? JSON.stringify(found) : "";
}

/** @param {HTMLElement} row @returns {HTMLElement[]} */
function lines(row) {
  return [...row.querySelectorAll("[data-condition]")].filter((one) => one instanceof HTMLElement);
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
