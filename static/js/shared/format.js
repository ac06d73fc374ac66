// Figures and times as people read them, one function for each kind; trainyard/formats/figures.py gives the same
// answers.
/** @typedef {string | number | null | undefined} Figure */
const PREFIXES = Object.entries({ E: 1e18, P: 1e15, T: 1e12, G: 1e9, M: 1e6, k: 1e3 });
export const SCALES = PREFIXES.slice(2); // without a unit: 2 PFLOP is a word, 2P is none
export const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
/** @type {[number, string, number, string][]} */
const SPANS = [
  [86400, "d", 3600, "h"],
  [3600, "h", 60, "min"],
  [60, "min", 1, "s"],
  [1, "s", 1, "s"],
];
/** @type {Record<string, string>} */
const RATES = { tokens: "tok/s", samples: "samples/s" };

/** @param {Figure} value @param {string} [unit] */
export function number(value, unit = "") {
  if (isMissing(value)) return "–";
  const x = Number(value);
  let text;
  if (Number.isNaN(x)) text = "NaN";
  else if (!Number.isFinite(x)) text = x > 0 ? "∞" : "−∞";
  else text = finite(x);
  return unit ? `${text} ${unit}` : text;
}

/** 8.53e9 -> 8.53 GFLOP/s: for units that are said with their prefix. @param {Figure} value @param {string} unit */
export function scaled(value, unit) {
  if (isMissing(value)) return "–";
  const x = Number(value);
  const found = PREFIXES.find(([, scale]) => Math.abs(x) >= scale * 0.9995 && Math.abs(x) < 1e21);
  return found ? `${threeDigits(x / found[1])} ${found[0]}${unit}` : number(x, unit);
}

/** A number on an axis: as short as it may be. @param {number} value */
export function tick(value) {
  return number(value)
    .replace(/(\.\d*?)0+(?=\D*$)/, "$1")
    .replace(/\.(?=\D*$)/, "");
}

/** @param {number | null | undefined} value */
export const count = (value) =>
  value === null || value === undefined ? "–" : Math.trunc(value).toLocaleString("en-US");

/** @param {Figure} value */
export function size(value) {
  if (isMissing(value) || !Number.isFinite(Number(value))) return number(value);
  let amount = Number(value);
  let unit = 0;
  while (Math.abs(amount) >= (unit ? 999.5 : 1024) && unit < BYTES.length - 1) {
    amount /= 1024;
    unit += 1;
  }
  return `${amount.toFixed(unit === 0 || Math.abs(amount) >= 99.95 ? 0 : 1)} ${BYTES[unit]}`;
}

/** @param {Figure} value */
export function speed(value) {
  const text = size(value);
  return text === "–" ? text : `${text}/s`;
}

/** Throughput in what a recipe counts, tokens or samples. @param {Figure} value @param {string} unit */
export const rate = (value, unit) => number(value, RATES[unit] ?? `${unit}/s`);

/** 0.384 -> 38 %: a share with two digits. @param {Figure} share */
export function percent(share) {
  if (isMissing(share) || !Number.isFinite(Number(share))) return "–";
  const hundredths = 100 * Number(share);
  if (hundredths === 0) return "0 %";
  const places = Math.max(0, 1 - Math.floor(Math.log10(Math.abs(hundredths))));
  return `${plain(hundredths.toFixed(Math.min(places, 20)))} %`.replace("-", "−");
}

/** A measured time, which is compared digit by digit: 0.0123 -> 12.3 ms. @param {Figure} value */
export function seconds(value) {
  if (isMissing(value) || !Number.isFinite(Number(value))) return number(value);
  const span = Number(value);
  const magnitude = Math.abs(span);
  if (magnitude >= 119.95) return duration(span);
  if (magnitude >= 0.9995 || magnitude === 0) return number(value, "s");
  return magnitude >= 0.9995e-3 ? number(span * 1e3, "ms") : number(span * 1e6, "µs");
}

/** @param {Figure} value */
export function duration(value) {
  if (isMissing(value) || !Number.isFinite(Number(value))) return "–";
  const span = Number(value);
  if (span < 1) return `${Math.max(0, Math.floor(span * 1000 + 0.5))} ms`;
  const whole = Math.floor(span + 0.5);
  if (whole < 60) return `${whole} s`;
  const [unit, name, below, belowName] = SPANS.find(([least]) => whole >= least) ?? SPANS[3];
  const rest = Math.floor((whole % unit) / below);
  const text = `${Math.floor(whole / unit)} ${name}`;
  return rest ? `${text} ${rest} ${belowName}` : text;
}

/** Percent as they were measured: 61.2 -> 61 %. @param {Figure} value */
export const points = (value) => percent(isMissing(value) ? null : Number(value) / 100);

// What a series' name says about its values. The first that fits is taken.
/** @type {[RegExp, (value: Figure) => string][]} */
const BY_NAME = [
  [/(^|[/_])bytes$/, size],
  [/(^|[/_])bytes_per_s(econd)?$/, speed],
  [/(_percent|utilization)$/, points],
  [/(^|[/_])mfu$/, percent],
  [/tokens_per_s(econd)?$/, (value) => rate(value, "tokens")],
  [/samples_per_s(econd)?$/, (value) => rate(value, "samples")],
  [/flops_per_s(econd)?$/, (value) => scaled(value, "FLOP/s")],
  [/temperature_c$/, (value) => number(value, "°C")],
  [/power_w$/, (value) => number(value, "W")],
  [/(?<!_per)_(s|seconds)$/, seconds],
];

/** @param {string} name */
export const formatOf = (name) => BY_NAME.find(([pattern]) => pattern.test(name))?.[1] ?? number;

/** @param {Figure} value @param {string} name */
export const metric = (value, name) => formatOf(name)(value);

/** @param {number} at @param {number} now */
export function age(at, now) {
  const ago = (now - at) / 1000;
  const span = Math.abs(ago);
  if (span < 5) return "just now";
  const [unit, name] = SPANS.find(([least]) => !(span < least)) ?? SPANS[3];
  const text = `${Math.floor(span / unit)} ${name}`;
  return ago > 0 ? `${text} ago` : `in ${text}`;
}

/** @param {Figure} value @returns {value is null | undefined | ""} */
const isMissing = (value) => value === null || value === undefined || value === "";

/** @param {number} x */
function finite(x) {
  const magnitude = Math.abs(x);
  if (x === 0) return "0";
  if (magnitude < 0.001 || magnitude >= 1e15) {
    const [digits, power] = x.toExponential(2).split("e");
    return `${Number(digits)}e${Number(power)}`.replaceAll("-", "−");
  }
  const found = SCALES.find(([, scale]) => magnitude >= scale * 0.9995);
  return found ? threeDigits(x / found[1]) + found[0] : threeDigits(x);
}

/** @param {number} x */
function threeDigits(x) {
  const magnitude = Math.abs(x);
  const places = magnitude >= 99.95 ? 0 : magnitude >= 9.995 ? 1 : magnitude >= 0.9995 ? 2 : 3;
  const text = x.toFixed(places);
  return (Number.isInteger(x) ? String(x) : text).replace("-", "−"); // 4, not 4.00: whole numbers are shown whole
}

/** Without zeros that say nothing: 0.40 is 0.4. @param {string} text */
const plain = (text) => (text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text);
