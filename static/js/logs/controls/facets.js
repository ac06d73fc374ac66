// Toggles with counts: of each kind none is pressed (all lines) or those whose lines are wanted.
import { seriesToken } from "../../shared/colours.js";
import { make, put } from "../../shared/dom.js";
import { count } from "../../shared/format.js";

const SINGLE = ["stream", "attempt", "label"]; // one of them, or all
const SHOWN_ALONE = ["level", "label"]; // worth a button where there is only one
const LEVELS = ["error", "warning", "info", "debug"];

export class Facets {
  // onChange(kind, values)
  constructor(element, onChange) {
    this.element = element;
    this.onChange = onChange;
    this.buttons = new Map(); // "kind value" -> button
    this.numbers = new Map(); // fence of an attempt -> its number, as people count
    element.addEventListener("click", (event) => this.onClick(event.target.closest("button")));
  }
  // counts: {level: {error: 3}, rank: {0: 5}, …}; chosen: {level: ["error"], …}, which stay without a count
  show(counts, chosen) {
    for (const group of this.element.querySelectorAll("[data-facet]")) {
      const kind = group.dataset.facet;
      const found = Object.keys(counts[kind] ?? {}).filter((value) => counts[kind][value]);
      const values = ordered(kind, new Set([...found, ...chosen[kind]]));
      group.hidden = values.length < (SHOWN_ALONE.includes(kind) ? 1 : 2) && !chosen[kind].length;
      for (const value of values)
        this.showOne(group, kind, value, counts[kind]?.[value] ?? 0, chosen[kind].includes(value));
      for (const [key, button] of this.buttons) {
        if (button.dataset.kind !== kind || values.includes(button.dataset.value)) continue;
        button.remove();
        this.buttons.delete(key);
      }
    }
  }
  showOne(group, kind, value, number, isPressed) {
    const key = `${kind} ${value}`;
    if (!this.buttons.has(key)) {
      const button = made(kind, value, kind === "attempt" ? this.numbers.get(value) : undefined);
      const after = [...this.buttons.values()].find(
        (one) => one.dataset.kind === kind && isBefore(kind, value, one.dataset.value),
      );
      group.insertBefore(button, after ?? null);
      this.buttons.set(key, button);
    }
    const button = this.buttons.get(key);
    button.setAttribute("aria-pressed", isPressed);
    put(button.lastElementChild, count(number));
  }
  onClick(button) {
    if (!button) return;
    const { kind } = button.dataset;
    button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") !== "true");
    const group = [...this.buttons.values()].filter((one) => one.dataset.kind === kind);
    if (SINGLE.includes(kind))
      for (const other of group) if (other !== button) other.setAttribute("aria-pressed", false);
    const pressed = group.filter((one) => one.getAttribute("aria-pressed") === "true");
    const values = pressed.map((one) => one.dataset.value);
    this.onChange(kind, values);
  }
}

function made(kind, value, label = value) {
  const name = make("span", { textContent: kind === "rank" && value < 0 ? "node" : label });
  const number = make("span", { className: "log-count" });
  const button = make("button", { type: "button", className: "log-facet" }, name, " ", number);
  if (kind === "rank" && value >= 0) button.classList.add(seriesToken(Number(value)));
  if (kind === "level") button.classList.add(`is-${value}`);
  Object.assign(button.dataset, { kind, value });
  if (kind === "rank") button.title = value < 0 ? "what the node itself says" : `rank ${value}`;
  return button;
}

function ordered(kind, values) {
  const known = kind === "level" ? LEVELS.filter((level) => values.has(level)) : [...values];
  return kind === "level" ? known : known.sort((one, other) => (isBefore(kind, one, other) ? -1 : 1));
}

function isBefore(kind, one, other) {
  if (kind === "level") return LEVELS.indexOf(one) < LEVELS.indexOf(other);
  if (kind === "label") return one < other;
  return kind === "stream" ? one > other : Number(one) < Number(other);
}
