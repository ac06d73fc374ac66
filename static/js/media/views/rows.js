// A table's rows in the order of a column, and as a file.
const { compare } = new Intl.Collator("en", { numeric: true });
const FORMULA = /^[=+\-@\t\r\n]/; // what a spreadsheet would run

// Numbers come before texts, and what is nothing last, whichever way they are sorted.
export function sorted(rows, column, isDescending) {
  const way = isDescending ? -1 : 1;
  const kind = (value) => (value === null || value === undefined ? 2 : typeof value === "string" ? 1 : 0);
  const order = (a, b) => (kind(a) === 1 ? compare(a, b) : kind(a) === 0 ? Number(a) - Number(b) : 0);
  return [...rows].sort((a, b) => kind(a[column]) - kind(b[column]) || way * order(a[column], b[column]));
}

export const csv = (columns, rows) => [columns, ...rows].map((row) => `${row.map(field).join(",")}\n`).join("");

function field(value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "string") return String(value);
  const text = FORMULA.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
