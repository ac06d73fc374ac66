// Runs grouped by fields of their specs: which group a run is in, and the colour of each, alike in lists and charts.
const { compare } = new Intl.Collator("en", { numeric: true });

// `fields`: spec path -> text; `by`: one path, several joined by commas, or none.
/** @param {Record<string, string>} fields @param {string} by */
export function groupText(fields, by) {
  if (!by) return "all runs";
  return by
    .split(",")
    .map((path) => `${path.slice(path.lastIndexOf(".") + 1)} ${fields[path] ?? "not set"}`)
    .join(" · ");
}

// `runs`: [{id, fields}]. Returns Map(text -> index of its colour), in the order in which groups are listed.
/** @param {{fields: Record<string, string>}[]} runs @param {string} by */
export function groupColours(runs, by) {
  const texts = new Set(runs.map((run) => groupText(run.fields, by)));
  return new Map([...texts].sort(compare).map((text, at) => [text, at % 10]));
}
