// Pure: a small language over the series of a run: numbers, names, + - * / ( ) and functions
// (docs/pages_expressions.md). It reads what is held of the series: where that is buckets, their means.
import { keyOf } from "../data/names.js";
import { concat, pick } from "../data/parts.js";
import { lowerBound, upperBound } from "../scales/views.js";
import { rising } from "./attempts.js";

/**
 * @typedef {{kind: "number", value: number} | {kind: "series", name: string}
 *   | {kind: "call", of: string, terms: Term[]}} Term
 */
/** @typedef {{labels: Labels, step: Column, time: Column, value: Column, attempt: Column}} Line */
/** @typedef {number | Line[]} Value */
/** @typedef {(name: string) => HeldLine[]} LinesOf */

const LONGEST = 500; // characters
const DEEPEST = 50; // brackets within brackets
// A name without quotes may have slashes, but begins and ends with none: "a/b" is one name, "a / b" a division.
const TOKEN = /\s*(?:(\d+\.?\d*(?:e[+-]?\d+)?|\.\d+)|"([^"]+)"|([a-z_][\w.]*(?:\/[\w.]+)*)|([-+*/(),]))/iy;
/** @type {Record<string, (...values: number[]) => number>} */
const EACH = {
  "+": (a, b) => a + b,
  "-": (a, b) => a - b,
  "*": (a, b) => a * b,
  "/": (a, b) => a / b,
  log: Math.log,
  abs: Math.abs,
  min: Math.min,
  max: Math.max,
};
// Of all lines of a series, such as its ranks, at one step.
/** @type {Record<string, (values: number[]) => number>} */
const OVER = {
  min: (values) => Math.min(...values),
  max: (values) => Math.max(...values),
  mean: (values) => values.reduce((sum, value) => sum + value, 0) / values.length,
  spread: (values) => Math.max(...values) - Math.min(...values),
};
/** @type {Record<string, (column: Column, amount: number) => Column>} */
const ALONG = { ema, mean, diff };
// How many terms each takes, and what the second is where it must be a number.
/** @type {Record<string, {least: number, most: number, second?: string}>} */
const FUNCTIONS = {
  ema: { least: 2, most: 2, second: "a number from 0 to 1" },
  mean: { least: 1, most: 2, second: "a number of points" },
  diff: { least: 1, most: 1 },
  log: { least: 1, most: 1 },
  abs: { least: 1, most: 1 },
  min: { least: 1, most: 2 },
  max: { least: 1, most: 2 },
  spread: { least: 1, most: 1 },
};

class ExpressionError extends Error {
  /** @param {string} message @param {number} position */
  constructor(message, position) {
    super(`${message}, at character ${position + 1}`);
    this.position = position;
  }
}

/** Raises ExpressionError, which names the character. @param {string} text @returns {Term} */
export function parsed(text) {
  if (text.length > LONGEST) throw new ExpressionError(`at most ${LONGEST} characters`, LONGEST);
  const tokens = tokensOf(text);
  let [at, depth] = [0, 0];
  const next = () => tokens[at];
  /** @param {string} sign */
  const take = (sign) => {
    const isIt = next().sign === sign;
    at += Number(isIt);
    return isIt;
  };
  /** @param {string} wanted @returns {never} */
  const fail = (wanted) => {
    throw new ExpressionError(`${wanted} is missing`, next().position);
  };

  /** @param {string[]} signs @param {() => Term} part @returns {Term} */
  function chain(signs, part) {
    let found = part();
    for (let sign = signs.find(take); sign; sign = signs.find(take))
      found = { kind: "call", of: sign, terms: [found, part()] };
    return found;
  }
  /** @returns {Term} */
  function sum() {
    if ((depth += 1) > DEEPEST) throw new ExpressionError("too many brackets", next().position);
    const found = chain(["+", "-"], () => chain(["*", "/"], signed));
    depth -= 1;
    return found;
  }
  /** @returns {Term} */
  function signed() {
    let num = 0;
    while (take("-")) num += 1;
    return num % 2 ? { kind: "call", of: "-", terms: [{ kind: "number", value: 0 }, atom()] } : atom();
  }
  /** @returns {Term} */
  function atom() {
    const { number, quoted, word, position } = next();
    if (take("(")) return closed(sum());
    if (number ?? quoted ?? word) at += 1;
    if (number) return { kind: "number", value: Number(number) };
    if (quoted) return { kind: "series", name: quoted };
    if (!word) return fail("a number or the name of a series");
    return take("(") ? call(word, position) : { kind: "series", name: word };
  }
  /** @template T @param {T} found @returns {T} */
  function closed(found) {
    return take(")") ? found : fail("a closing bracket");
  }
  /** @param {string} of @param {number} position @returns {Term} */
  function call(of, position) {
    const rule = Object.hasOwn(FUNCTIONS, of) ? FUNCTIONS[of] : null;
    if (!rule)
      throw new ExpressionError(`there is no function ${of}, but ${Object.keys(FUNCTIONS).join(", ")}`, position);
    const terms = [sum()];
    while (take(",")) terms.push(sum());
    closed(terms);
    const { least, most, second } = rule;
    if (terms.length < least || terms.length > most)
      throw new ExpressionError(
        `${of} takes ${least === most ? least : `${least} or ${most}`} of ${terms.length}`,
        position,
      );
    if (second && terms[1] && !isFit(of, terms[1]))
      throw new ExpressionError(`the second of ${of} is ${second}`, position);
    return { kind: "call", of, terms };
  }

  const found = sum();
  if (!next().isEnd) throw new ExpressionError("an operator such as + or / is missing", next().position);
  if (!namesIn(found).length) throw new ExpressionError("the name of a series is missing", 0);
  return found;
}

/** @param {string} of @param {Term} term */
function isFit(of, term) {
  if (term.kind !== "number") return false;
  return of === "ema" ? term.value <= 1 : term.value >= 1 && Number.isInteger(term.value);
}

/**
 * @typedef {{position: number, number?: string, quoted?: string, word?: string, sign?: string, isEnd?: boolean}} Token
 */
/** @param {string} text @returns {Token[]} */
function tokensOf(text) {
  /** @type {Token[]} */
  const found = [];
  let end = 0;
  while (text.slice(end).trim()) {
    TOKEN.lastIndex = end;
    const match = TOKEN.exec(text);
    const position = end + text.slice(end).search(/\S/);
    if (!match) throw new ExpressionError(`“${text[position]}” means nothing here`, position);
    const [, number, quoted, word, sign] = match;
    end = TOKEN.lastIndex;
    found.push({ position, number, quoted, word, sign });
  }
  return [...found, { position: text.length, isEnd: true }];
}

/** The names of series in it, each once. @param {Term} term @returns {string[]} */
export function namesIn(term) {
  if (term.kind === "call") return [...new Set(term.terms.flatMap(namesIn))];
  return term.kind === "series" ? [term.name] : [];
}

// The lines that it has in one run; linesOf(name): what is held of a series in that run.
/** @param {Term} term @param {LinesOf} linesOf @returns {Pick<HeldLine, "labels" | "parts" | "tails">[]} */
export function linesIn(term, linesOf) {
  const found = evaluated(term, linesOf);
  return typeof found === "number" ? [] : found.filter(({ step }) => step.length).map(held);
}

/** @param {Term} term @param {LinesOf} linesOf @returns {Value} */
function evaluated(term, linesOf) {
  if (term.kind === "number") return term.value;
  if (term.kind === "series") return linesOf(term.name).map(flat);
  const { of } = term;
  const values = term.terms.map((one) => evaluated(one, linesOf));
  const [first, second] = values;
  if (ALONG[of] && (of !== "mean" || values.length > 1)) {
    if (typeof first === "number") return first;
    const from = of === "diff" ? 1 : 0; // before the first there is nothing
    return first.map((line) => ({ ...cut(line, from), value: ALONG[of](line.value, Number(second)).subarray(from) }));
  }
  if (OVER[of] && values.length === 1) {
    if (typeof first === "number" || !first.length) return first;
    return [{ ...aligned(first, (row) => OVER[of](row)), labels: {} }];
  }
  return each(values, EACH[of]);
}

// Line by line: those of the same labels go together, and a series with a single line with each of the other's.
/** @param {Value[]} values @param {(...values: number[]) => number} compute @returns {Value} */
function each(values, compute) {
  const all = values.filter((one) => typeof one !== "number");
  if (!all.length) return compute(.../** @type {number[]} */ (values));
  const most = all.reduce((one, other) => (other.length > one.length ? other : one));
  return most.flatMap(({ labels }) => {
    const key = keyOf(labels);
    const found = all.map((lines) =>
      lines.length === 1 ? lines[0] : lines.find((line) => keyOf(line.labels) === key),
    );
    const lines = found.filter((line) => line !== undefined);
    if (lines.length < found.length) return [];
    const fill = (/** @type {number[]} */ row) => {
      let at = 0;
      return compute(...values.map((one) => (typeof one === "number" ? one : row[at++])));
    };
    return [{ ...aligned(lines, fill), labels }];
  });
}

// The result stands at the steps of the line with the fewest points; each other line has there its newest value at or
// before that step, and before its first there is no result.
/** @param {Line[]} lines @param {(row: number[]) => number} compute @returns {Line} */
function aligned(lines, compute) {
  const base = lines.reduce((one, other) => (other.step.length < one.step.length ? other : one));
  const start = Math.max(...lines.map(({ step }) => step[0] ?? Infinity));
  const from = lowerBound(base.step, start);
  const places = lines.map(() => 0);
  const value = base.value.slice(from);
  for (let at = 0; at < value.length; at += 1) {
    const step = base.step[from + at];
    value[at] = compute(
      lines.map((line, which) => {
        let place = places[which];
        while (line.step[place + 1] <= step) place += 1;
        places[which] = place;
        return line.value[place];
      }),
    );
  }
  return { ...cut(base, from), value };
}

/** @param {Line} line @param {number} from @returns {Line} */
function cut({ labels, step, time, value, attempt }, from) {
  return {
    labels,
    step: step.subarray(from),
    time: time.subarray(from),
    value: value.subarray(from),
    attempt: attempt.subarray(from),
  };
}

// The attempts of a line as one; where a later one trained a step again it wins.
/** @param {Pick<HeldLine, "labels" | "parts">} line @returns {Line} */
function flat({ labels, parts }) {
  /** @type {Omit<Line, "labels">[]} */
  const pieces = [];
  let limit = Infinity;
  for (const [attempt, held] of [...parts].sort(([a], [b]) => b - a)) {
    const { step, time, value } = rising(held);
    const end = lowerBound(step, limit);
    pieces.unshift({
      step: step.subarray(0, end),
      time: time.subarray(0, end),
      value: value.subarray(0, end),
      attempt: new Float64Array(end).fill(attempt),
    });
    limit = Math.min(limit, step[0] ?? Infinity);
  }
  /** @param {"step" | "time" | "value" | "attempt"} name */
  const column = (name) => concat(pieces.map((piece) => piece[name]));
  return { labels, step: column("step"), time: column("time"), value: column("value"), attempt: column("attempt") };
}

// The line over the values of another series in the place of its steps: those of the same labels, or the only one.
/** @param {Pick<HeldLine, "labels" | "parts">} line @param {HeldLine[]} others @returns {Map<number, Part>} */
export function against({ labels, parts }, others) {
  const key = keyOf(labels);
  const other = others.length === 1 ? others[0] : others.find((one) => keyOf(one.labels) === key);
  if (!other) return new Map();
  const both = [flat({ labels, parts }), flat(other)];
  const { time, value } = aligned(both, ([own]) => own);
  const { value: step } = aligned(both, ([, x]) => x);
  return new Map([[0, pick(pointsOf(step, time, value), (at) => Number.isFinite(step[at]))]]);
}

/** @param {Line} line */
function held({ labels, step, time, value, attempt }) {
  /** @type {Map<number, Part>} */
  const parts = new Map();
  for (let from = 0, to = 0; from < step.length; from = to) {
    to = upperBound(attempt, attempt[from]);
    const [steps, times, values] = [step, time, value].map((column) => column.subarray(from, to));
    parts.set(attempt[from], pointsOf(steps, times, values));
  }
  return { labels, parts, tails: new Map() };
}

/** @param {Column} step @param {Column} time @param {Column} value @returns {Part} */
function pointsOf(step, time, value) {
  return { step, time, value, min: null, max: null, last: null, num_nan: null, seams: [] };
}

// What came before counts `amount`, from the first value on; what is no number is passed over.
/** @param {Column} column @param {number} amount @returns {Column} */
function ema(column, amount) {
  let known = NaN;
  return column.map((value) => {
    if (value - value !== 0) return value;
    known = known === known ? amount * known + (1 - amount) * value : value;
    return known;
  });
}

// Over the last `amount` points; a sum that lost what left it would keep its rounding, so each is added anew.
/** @param {Column} column @param {number} amount @returns {Column} */
function mean(column, amount) {
  return column.map((_, at) => {
    const row = column.subarray(Math.max(0, at + 1 - amount), at + 1);
    return row.reduce((sum, value) => sum + value, 0) / row.length;
  });
}

/** @param {Column} column @returns {Column} */
function diff(column) {
  return column.map((value, at) => value - column[at - 1]);
}
