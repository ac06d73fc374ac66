// A table whose columns sort it; only so many rows are drawn, and it says how many there are.
import { all, around } from "../../shared/dom.js";
import { count, number } from "../../shared/format.js";
import { csv, sorted } from "./rows.js";
import { fileName, saveText } from "./save.js";

const DRAWN = 200;

export class TableView {
  // kept.order: {column: its name, isDescending}, from step to step
  constructor(host, { label, kept }) {
    this.label = label;
    this.kept = kept;
    this.element = document.createElement("div");
    this.element.className = "media-rows";
    this.element.tabIndex = 0;
    this.element.setAttribute("role", "region");
    this.element.setAttribute("aria-label", `Rows of ${label}`);
    this.element.addEventListener("click", (event) => this.onHead(around(event, "button")));
    host.append(this.element);
  }

  show(_entry, { table, meta }) {
    this.table = table;
    this.draw();
    const total = table.rows.length;
    const cut = [
      meta.num_rows && `${count(meta.num_rows)} rows`,
      meta.num_columns && `${count(meta.num_columns)} columns`,
    ]
      .filter(Boolean)
      .join(" and ");
    const whole = cut ? `, cut from the ${cut} that were logged` : "";
    return {
      ours:
        total > DRAWN
          ? `${DRAWN} of ${count(total)} rows drawn; the download has all${whole}`
          : `${count(total)} ${total === 1 ? "row" : "rows"}${whole}`,
    };
  }

  draw() {
    const { columns, rows } = this.table;
    const { order } = this.kept;
    const place = order ? columns.indexOf(order.column) : -1;
    const shown = (place < 0 ? rows : sorted(rows, place, order.isDescending)).slice(0, DRAWN);
    const isNumeric = columns.map(
      (_, at) =>
        rows.slice(0, DRAWN).every((row) => typeof row[at] !== "string") &&
        rows.some((row) => typeof row[at] === "number"),
    );
    const table = document.createElement("table");
    table.className = "grid-table";
    table.setAttribute("aria-label", this.label);
    table
      .createTHead()
      .insertRow()
      .append(...columns.map((column, at) => head(column, isNumeric[at], at === place ? order : null)));
    const body = table.createTBody();
    for (const row of shown) body.insertRow().append(...columns.map((_, at) => cell(row[at], isNumeric[at])));
    this.element.replaceChildren(table);
  }

  onHead(button) {
    if (!button) return;
    const at = [...this.element.querySelectorAll("th button")].indexOf(button);
    const column = this.table.columns[at];
    const { order } = this.kept;
    this.kept.order = { column, isDescending: order?.column === column && !order.isDescending };
    this.draw();
    all(this.element, "th button")[at].focus();
  }

  download(name, entry, { table }) {
    saveText(csv(table.columns, table.rows), fileName(name, entry.step, "csv"), "text/csv");
  }

  close() {
    this.element.remove();
  }
}

function head(text, isNumeric, order) {
  const element = document.createElement("th");
  const button = document.createElement("button");
  element.scope = "col";
  element.className = isNumeric ? "num" : "";
  if (order) element.setAttribute("aria-sort", order.isDescending ? "descending" : "ascending");
  button.type = "button";
  button.dir = "auto";
  button.textContent = text || "–";
  element.append(button);
  return element;
}

function cell(value, isNumeric) {
  const element = document.createElement("td");
  const isNothing = value === null || value === undefined;
  element.className = isNumeric ? "num" : "";
  element.dir = "auto";
  element.textContent = isNothing ? "–" : typeof value === "number" ? number(value) : String(value);
  if (typeof value === "number") element.title = String(value);
  if (isNothing) element.classList.add("faint");
  return element;
}
