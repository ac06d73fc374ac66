// The lines of a chart as a table: colour, name, value, smallest and largest. Heads sort it; a row that is pointed at
// lights its line.

import { seriesToken } from "../../shared/colours.js";
import { make, order, put } from "../../shared/dom.js";
import { inOrder } from "../../shared/grouping.js";

const COLUMNS = { name: "Line", value: "Value", min: "Min", max: "Max" };
const MOST = 200; // rows; how many more there are is said below them

export class Legend {
  // on: {sort(by), light(line or null)}
  constructor(host, on) {
    this.host = host;
    this.rows = new Map(); // key -> {element, cells, line}
    const table = make("table");
    const head = table.createTHead().insertRow();
    this.heads = Object.entries(COLUMNS).map(([by, words]) => {
      const button = make("button", { type: "button", textContent: words });
      const cell = make("th", { scope: "col" }, button);
      button.addEventListener("click", () => on.sort(by));
      head.append(cell);
      return /** @type {[string, HTMLTableCellElement]} */ ([by, cell]);
    });
    this.body = table.createTBody();
    this.more = make("p", { hidden: true });
    this.host.append(table, this.more);
    const lineAt = (event) => this.rows.get(event.target.closest("tr")?.dataset.key)?.line ?? null;
    this.body.addEventListener("pointerover", (event) => on.light(lineAt(event)));
    this.body.addEventListener("pointerleave", () => on.light(null));
    this.body.addEventListener("focusin", (event) => on.light(lineAt(event)));
    this.body.addEventListener("focusout", () => on.light(null));
    this.body.addEventListener("keydown", onArrow);
  }

  // rows: [{key, runs, colour, label, reach, value, min, max}] in order, the last three as text.
  show(rows, sort) {
    this.heads.forEach(([by, cell]) =>
      cell.setAttribute("aria-sort", by !== sort.by ? "none" : sort.isDescending ? "descending" : "ascending"),
    );
    const shown = rows.slice(0, MOST);
    const keys = new Set(shown.map(({ key }) => key));
    for (const [key, { element }] of this.rows) {
      if (keys.has(key)) continue;
      element.remove();
      this.rows.delete(key);
    }
    const elements = shown.map((row, at) => {
      const known = this.rows.get(row.key) ?? this.add(row);
      known.line = { key: row.key, runs: row.runs };
      write(known.cells, row);
      known.element.tabIndex = at ? -1 : 0;
      return known.element;
    });
    order(this.body, elements);
    this.more.hidden = rows.length <= MOST;
    this.more.textContent = `and ${rows.length - MOST} more`;
  }

  add({ key }) {
    const head = make("th", { scope: "row" }, make("i"), make("span"), make("small"));
    const cells = [head, make("td"), make("td"), make("td")];
    const element = make("tr", {}, ...cells);
    element.dataset.key = key;
    this.rows.set(key, { element, cells });
    return this.rows.get(key);
  }

  // The values at the crosshair: Map(key -> text).
  values(texts) {
    for (const [key, { cells }] of this.rows) put(cells[1], texts.get(key) ?? "–");
  }

  shine(isLit) {
    for (const [key, { element }] of this.rows) element.classList.toggle("is-lit", isLit?.(key) === true);
  }
}

// Numbers before what has none; names as people count. rows: with `order`: {name, value, min, max}.
export function sorted(rows, { by, isDescending }) {
  const sign = isDescending ? -1 : 1;
  const isNumber = (row) => by === "name" || Number.isFinite(row.order[by]);
  return rows.toSorted(
    (a, b) =>
      Number(isNumber(b)) - Number(isNumber(a)) ||
      (by === "name"
        ? sign * inOrder(a.order.name, b.order.name)
        : isNumber(a)
          ? sign * (a.order[by] - b.order[by])
          : 0) ||
      inOrder(a.order.name, b.order.name),
  );
}

function write(cells, { colour, label, reach, value, min, max }) {
  const [dot, name, runs] = cells[0].children;
  if (dot.className !== `dot ${seriesToken(colour)}`) dot.className = `dot ${seriesToken(colour)}`;
  put(name, label);
  put(runs, reach);
  cells[0].title = [label, reach].filter(Boolean).join(": ");
  [value, min, max].forEach((text, at) => put(cells[at + 1], text));
}

function onArrow(event) {
  const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
  const row = event.target.closest("tr");
  if (!step || !row?.[step]) return;
  event.preventDefault();
  row[step].focus();
}
