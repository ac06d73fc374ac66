// A table whose columns sort it; only so many rows are drawn, and it says how many there are.
import { all, around, make } from "../../shared/dom.js";
import { count, number } from "../../shared/format.js";
import { csv, sorted } from "./rows.js";
import { fileName, saveText } from "./save.js";

const DRAWN = 200;

export class TableView {
  // kept.order: {column: its name, isDescending}, from step to step
  constructor(host, { label, kept }) {
    this.label = label;
    this.kept = kept;
    this.element = make("div", { className: "media-rows", tabIndex: 0, role: "region", ariaLabel: `Rows of ${label}` });
    this.element.addEventListener("click", (event) => this.onHead(around(event, "button")));
    host.append(this.element);
  }

  show(_entry, { table, meta }) {
    this.table = table;
    this.draw();
    const total = table.rows.length;
    const { num_rows: numRows, num_columns: numColumns } = meta;
    const logged = [numRows && `${count(numRows)} rows`, numColumns && `${count(numColumns)} columns`];
    const cut = logged.filter(Boolean).join(" and ");
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
    const table = make("table", { className: "grid-table", ariaLabel: this.label });
    const heads = columns.map((column, at) => head(column, isNumeric[at], at === place ? order : null));
    const top = table.createTHead().insertRow();
    top.append(...heads);
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
  const button = make("button", { type: "button", dir: "auto", textContent: text || "–" });
  const element = make("th", { scope: "col", className: isNumeric ? "num" : "" }, button);
  if (order) element.ariaSort = order.isDescending ? "descending" : "ascending";
  return element;
}

function cell(value, isNumeric) {
  const isNothing = value === null || value === undefined;
  const textContent = isNothing ? "–" : typeof value === "number" ? number(value) : String(value);
  const element = make("td", { className: isNumeric ? "num" : "", dir: "auto", textContent });
  if (typeof value === "number") element.title = String(value);
  if (isNothing) element.classList.add("faint");
  return element;
}
