// The fields of the launch form: which of them the chosen kind of task reads, and what they say for it.

// Shows the fields that something reads, as far as the others say; what was typed into a hidden one stays there.
export function showNeeded(form) {
  const kind = kindOf(form);
  for (const field of form.querySelectorAll("[data-needs]")) {
    const { needs, needsValues, needsAbove, needsDefault, needing, namedBy } = field.dataset;
    const value = form.elements[needs].value.trim() || needsDefault;
    const isNamed = Boolean(namedBy && form.elements[namedBy].value);
    const isMet =
      isNamed || (needsValues ? needsValues.split(" ").includes(value) : Number(value) > Number(needsAbove));
    field.hidden = needing.split(" ").includes(kind) && !isMet;
  }
}

// Offers in each list what the kind and the project have, and puts its own default where that of the kind before still
// stands.
export function showKind(form, before) {
  const kind = kindOf(form);
  for (const option of form.querySelectorAll("option[data-tasks]")) {
    option.hidden = option.disabled = !option.dataset.tasks.split(" ").includes(kind);
  }
  for (const option of form.querySelectorAll("option[data-projects]")) {
    option.hidden = option.disabled = !option.dataset.projects.split(" ").includes(form.elements.project.value);
  }
  for (const field of form.querySelectorAll("[data-defaults]")) {
    const defaults = JSON.parse(field.dataset.defaults);
    const input = field.querySelector("[name]");
    if (kind in defaults && (isLost(input) || (before in defaults && input.value === defaults[before])))
      input.value = defaults[kind];
  }
  const { name } = form.elements;
  if (before !== kind && (name.value === name.defaultValue || name.value === before)) {
    name.value = kind === first(form) ? name.defaultValue : kind;
  }
  for (const select of form.querySelectorAll("select")) {
    const usable = [...select.options].find((option) => !option.disabled);
    if (usable && isLost(select)) select.value = usable.value;
  }
}

// Puts in each field the text that a map says by the field's path.
export function fill(form, texts) {
  for (const [path, text] of Object.entries(texts)) {
    const input = form.elements[path];
    if (!input) continue;
    if (input.type === "checkbox") input.checked = text === "on";
    else input.value = text;
  }
}

// Whether a list stands on nothing that the kind has.
function isLost(input) {
  return input.tagName === "SELECT" && (input.selectedOptions[0]?.disabled ?? true);
}

// The kind that the page came with.
function first(form) {
  return [...form.elements.task].find((input) => input.defaultChecked)?.value;
}

export function kindOf(form) {
  return form.elements.task.value;
}
