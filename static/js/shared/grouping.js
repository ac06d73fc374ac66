// Runs grouped by fields of their specs: which group a run is in, and the colour of each, alike in lists and charts.
const { compare } = new Intl.Collator("en");
const NUMBERS = /((?:(?<=\s)-)?\d+(?:\.\d+)?(?:e[-+]?\d+)?)/i; // a sign stands behind a space: rate-3 has none

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
  return new Map([...texts].sort(inOrder).map((text, at) => [text, at % 10]));
}

/** @type {Map<string, string[]>} */
const known = new Map(); // a legend of 1,000 lines is sorted again and again

/** The odd ones are the numbers. @param {string} text */
function partsOf(text) {
  const parts = known.get(text) ?? text.split(NUMBERS);
  if (known.size > 20_000) known.clear();
  known.set(text, parts);
  return parts;
}

/** Numbers by their size, what stands between them by its letters. @param {string} one @param {string} other */
export function inOrder(one, other) {
  const [these, those] = [partsOf(one), partsOf(other)];
  for (let at = 0; at < Math.max(these.length, those.length); at += 1) {
    const [left, right] = [these[at] ?? "", those[at] ?? ""];
    const found = at % 2 ? Number(left) - Number(right) : compare(left, right);
    if (found) return found;
  }
  return 0;
}
