// What a chart says in words and numbers: its head, its legend, and what the crosshair reads.
import { count } from "../../shared/format.js";
import { sorted } from "./legend.js";
import { badAt, valuesAt, where } from "./reading.js";

const LEVEL = 0.05; // of what a line spans: a smaller change is none
const SPOKEN = 4; // lines that are read out at most
const UNIT = /^\S+ (tok\/s|samples\/s|ms|s|%)$/; // said once in a row

// A row for each line of what was built, in the order that the page has.
export function rowsOf(built, { colourOf, labelOf, sort, format, axis }) {
  const rows = [...built.lines].map(([key, line]) => {
    const label = labelOf(key, built);
    const value = format(line.last);
    const [min, max] = [line.min, line.max].map((one) => withoutUnit(format(one), UNIT.exec(value)?.[1]));
    return {
      key,
      runs: line.runs ?? [line.run],
      colour: colourOf(key, built),
      label,
      reach: line.reach ? reachWords(line, axis) : "",
      value,
      min,
      max,
      order: { name: label, value: line.last, min: line.min, max: line.max },
    };
  });
  return sorted(rows, sort);
}

// Over which runs and which stretch the line of a group speaks.
function reachWords({ runs, reach: { from, to, numAtEnd } }, axis) {
  const words = `${count(runs.length)} run${runs.length === 1 ? "" : "s"}`;
  if (!(from <= to)) return words;
  const whole = `${words}, ${where(from, axis)} to ${where(to, axis).replace(/^step /, "")}`;
  return numAtEnd < runs.length ? `${whole}, ${count(numAtEnd)} of them to the end` : whole;
}

const withoutUnit = (text, unit) => (unit && UNIT.exec(text)?.[1] === unit ? text.slice(0, -unit.length - 1) : text);

export const ends = ({ min, max }) => `min ${min}, max ${max}`;

// At a place: {x, where, values: Map(key -> {x, value, low, high}), texts: Map(key -> text)}.
export function readAt(built, place, axis, format) {
  const values = valuesAt(built, place);
  const x = values.size === 1 ? [...values.values()][0].x : built.x[place]; // of a single line its own point
  const texts = new Map([...values].map(([key, { value }]) => [key, format(value)]));
  const bad = badAt(built, x);
  if (bad !== undefined && built.lines.size === 1) texts.set([...built.lines.keys()][0], format(bad));
  return { x, where: where(x, axis), values, texts };
}

// What the points of a bucket reach beside their mean: with that a spike in a million points is read at every zoom.
export const spread = ({ value, low, high }, format) =>
  low === null || low === undefined || (low === value && high === value) ? "" : `${format(low)} … ${format(high)}`;

// Of a chart as a whole, for keyboard users.
export function summary(rows) {
  if (rows.length === 1) return `last ${rows[0].value}, ${ends(rows[0])}`;
  return rows.length ? `${rows.length} lines` : "no points yet";
}

// How the lines went, in words, of the first few: "fell from 3.7 to 1.5, least 1.4, greatest 3.9".
export function trends(built, rows, format) {
  const said = rows.slice(0, SPOKEN).map(({ key, label, min, max, order }) => {
    const column = built.columns.findIndex((one) => one.kind === "main" && one.key === key);
    const first = column < 0 ? undefined : Array.from(built.ys[column]).find(Number.isFinite);
    if (first === undefined || !Number.isFinite(order.value)) return rows.length > 1 ? label : "no points yet";
    const change = order.value - first;
    const isLevel = Math.abs(change) <= LEVEL * (order.max - order.min);
    const went = isLevel ? "stayed near" : `${change < 0 ? "fell" : "rose"} from ${format(first)} to`;
    return `${rows.length > 1 ? `${label} ` : ""}${went} ${format(order.value)}, least ${min}, greatest ${max}`;
  });
  return (
    [...said, ...(rows.length > SPOKEN ? [`and ${rows.length - SPOKEN} more lines`] : [])].join("; ") || "no points yet"
  );
}

// For ears: the line that is lit alone, else the first few.
export function spoken(reading, rows, litKey, note = "") {
  const read = rows.filter(({ key }) => reading.texts.has(key));
  const lit = read.filter(({ key }) => key === litKey);
  const texts = (lit.length ? lit : read)
    .slice(0, SPOKEN)
    .map(({ key, label }) => (rows.length > 1 ? `${label} ${reading.texts.get(key)}` : reading.texts.get(key)));
  const rest = lit.length ? 0 : read.length - texts.length;
  const words = texts.length ? texts.join(", ") + (rest > 0 ? `, and ${rest} more` : "") : "no point";
  return `${reading.where}: ${words}${note ? `. ${note}` : ""}`;
}
