// Pure: what stands at the ticks of an axis.
import { BYTES, count, duration, SCALES, tick as short, size } from "../../shared/format.js";

const DAY = 86400;

/** With as many digits as neighbouring ticks need to differ. @param {number[]} ticks */
export function numberLabels(ticks) {
  const most = Math.max(...ticks.map(Math.abs));
  const step = leastStep(ticks);
  if (most > 0 && (most < 1e-3 || most >= 1e15)) return ticks.map((tick) => scientific(tick, step));
  return ticks.map((tick) => {
    const [letter, scale] = SCALES.find(([, one]) => Math.abs(tick) >= one) ?? ["", 1];
    const digits = (tick / scale).toFixed(places(step / scale));
    return tick === 0
      ? "0"
      : (letter && digits.includes(".") ? digits.replace(/\.?0+$/, "") : digits).replace("-", "−") + letter;
  });
}

/** @param {number[]} ticks */
export function stepLabels(ticks) {
  const isWide = leastStep(ticks) >= 1000 && Math.max(...ticks.map(Math.abs)) >= 1e5;
  return isWide
    ? numberLabels(ticks)
    : ticks.map((tick) => (Number.isInteger(tick) ? count(tick).replace("-", "−") : ""));
}

/** @param {number[]} ticks */
export function logLabels(ticks) {
  const isEven = ticks.every((tick) => /^[1235](e|$)/.test(tick.toExponential().replace(/e.*/, "")));
  return isEven ? ticks.map(short) : numberLabels(ticks);
}

/** @param {number[]} ticks */
export function sizeLabels(ticks) {
  const rough = ticks.map((tick) => size(tick).replace(".0 ", " "));
  if (areApart(rough)) return rough;
  const unit = size(Math.max(...ticks.map(Math.abs))).replace(/^.* /, "");
  const amounts = ticks.map((tick) => tick / 1024 ** BYTES.indexOf(unit));
  const digits = [2, 3, 4, 5, 6].find((one) => areApart(amounts.map((amount) => amount.toFixed(one)))) ?? 7;
  return amounts.map((amount) => `${amount.toFixed(digits)} ${unit}`);
}

/** @param {number[]} ticks */
export const speedLabels = (ticks) => sizeLabels(ticks).map((text) => `${text}/s`);

// factor: 100 where the values are parts of one, 1 where they are percent.
/** @param {number[]} ticks @param {number} factor */
export function shareLabels(ticks, factor) {
  return numberLabels(ticks.map((tick) => tick * factor)).map((text) => `${text} %`);
}

/** All in the unit of the largest. @param {number[]} ticks */
export function secondsLabels(ticks) {
  const most = Math.max(...ticks.map(Math.abs));
  /** @type {[number, string]} */
  const [factor, unit] = most < 1e-3 ? [1e6, "µs"] : most < 1 ? [1e3, "ms"] : [1, "s"];
  return numberLabels(ticks.map((tick) => tick * factor)).map((text) => (text === "0" ? text : `${text} ${unit}`));
}

/** @param {number[]} ticks */
export function spanLabels(ticks) {
  const isFine = leastStep(ticks) < 1;
  /** @param {number} tick @returns {string} */
  const text = (tick) =>
    tick === 0 ? "0" : isFine ? `${numberLabels(ticks)[ticks.indexOf(tick)]} s` : duration(Math.abs(tick));
  const rough = ticks.map((tick) => (tick < 0 && !isFine ? `−${text(tick)}` : text(tick)));
  return areApart(rough) ? rough : ticks.map((tick) => `${count(tick).replace("-", "−")} s`);
}

/** The time of day; the day where it is another than at the tick before. @param {number[]} ticks */
export function clockLabels(ticks) {
  const step = leastStep(ticks);
  let before = "";
  return ticks.map((tick) => {
    const { day, time } = clock(tick, step);
    const isNew = day !== before;
    before = day;
    return step >= DAY ? day : isNew ? `${day} ${time}` : time;
  });
}

/** @param {number} seconds @param {number} [step] */
export function clock(seconds, step = 1) {
  const at = new Date(seconds * 1000);
  /** @param {number} value */
  const two = (value) => String(value).padStart(2, "0");
  const fine = step < 1 ? `.${String(at.getMilliseconds()).padStart(3, "0")}` : "";
  const time = `${two(at.getHours())}:${two(at.getMinutes())}${step < 60 ? `:${two(at.getSeconds())}${fine}` : ""}`;
  return { day: at.toLocaleDateString("en-US", { month: "short", day: "numeric" }), time };
}

/** @param {string[]} labels */
const areApart = (labels) => new Set(labels).size === labels.length;

/** How many decimals it takes to write a step: of 0.25 two. @param {number} step */
function places(step) {
  for (let found = 0; found < 12; found += 1)
    if (Math.abs(step * 10 ** found - Math.round(step * 10 ** found)) < 1e-6 * step * 10 ** found) return found;
  return 12;
}

/** @param {number[]} ticks */
function leastStep(ticks) {
  let least = Math.abs(ticks[0]) || 1;
  for (let at = 1; at < ticks.length; at += 1) least = Math.min(at > 1 ? least : Infinity, ticks[at] - ticks[at - 1]);
  return least;
}

/** @param {number} tick @param {number} step */
function scientific(tick, step) {
  if (tick === 0) return "0";
  const [digits, power] = tick
    .toExponential(places(step / 10 ** Math.floor(Math.log10(Math.abs(tick)) + 1e-9)))
    .split("e");
  return `${Number(digits)}e${Number(power)}`.replaceAll("-", "−");
}
