// Pure: where an axis has its ticks, and what stands at them. `most`: how many there is room for.
import { count, duration, number, size } from "../format.js";

const SPANS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800]; // seconds
const SCALES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
const DAY = 86400;

// isWhole: between two whole numbers there is nothing.
export function linearTicks(min, max, most, isWhole = false) {
  const step = nice(Math.max(isWhole ? 1 : 0, (max - min) / Math.max(1, most)));
  return multiples(min, max, isWhole && !Number.isInteger(step) ? 2 * step : step);
}

// At powers of ten and, where there is room, between them; evenly where the range has no power to speak of.
export function logTicks(min, max, most) {
  const [low, high] = [Math.log10(min), Math.log10(max)];
  const stride = Math.max(1, Math.ceil((high - low) / Math.max(1, most)));
  const between = (high - low) * 3 <= most ? [1, 2, 5] : [1];
  const ticks = [];
  for (let power = Math.ceil(Math.floor(low) / stride) * stride; power <= high; power += stride) {
    for (const one of between) if (one * 10 ** power >= min && one * 10 ** power <= max) ticks.push(Number(`${one}e${power}`));
  }
  return ticks.length > 2 ? ticks : linearTicks(min, max, most);
}

// In powers of two, as memory is counted.
export function sizeTicks(min, max, most) {
  const step = 2 ** Math.ceil(Math.log2((max - min) / Math.max(1, most)));
  return multiples(min, max, step);
}

// Of seconds since a start.
export function spanTicks(min, max, most) {
  const least = (max - min) / Math.max(1, most);
  return multiples(min, max, least < 1 ? nice(least) : (SPANS.find((span) => span >= least) ?? Math.ceil(least / DAY) * DAY));
}

// Of Unix seconds, on round hours and days of this place.
export function clockTicks(min, max, most) {
  const least = (max - min) / Math.max(1, most);
  if (least < 1) return multiples(min, max, nice(least));
  const span = SPANS.find((one) => one >= least) ?? Math.ceil(least / DAY) * DAY;
  if (span < DAY) {
    const offset = new Date(min * 1000).getTimezoneOffset() * 60;
    return multiples(min - offset, max - offset, span).map((local) => local + offset);
  }
  const first = new Date(min * 1000);
  const ticks = [];
  for (let day = 0, at = min; at <= max && day < 10_000; day += span / DAY) {
    at = new Date(first.getFullYear(), first.getMonth(), first.getDate() + day) / 1000;
    if (at >= min && at <= max) ticks.push(at);
  }
  return ticks;
}

// With as many digits as it takes to tell one tick from the next.
export function numberLabels(ticks) {
  const most = Math.max(...ticks.map(Math.abs));
  const step = leastStep(ticks);
  if (most > 0 && (most < 1e-3 || most >= 1e15)) return ticks.map((tick) => scientific(tick, step));
  return ticks.map((tick) => {
    const [scale, letter] = SCALES.find(([one]) => Math.abs(tick) >= one) ?? [1, ""];
    const digits = (tick / scale).toFixed(places(step / scale));
    return tick === 0 ? "0" : (letter && digits.includes(".") ? digits.replace(/\.?0+$/, "") : digits).replace("-", "−") + letter;
  });
}

export function stepLabels(ticks) {
  const isWide = leastStep(ticks) >= 1000 && Math.max(...ticks.map(Math.abs)) >= 1e5;
  return isWide ? numberLabels(ticks) : ticks.map((tick) => (Number.isInteger(tick) ? count(tick).replace("-", "−") : ""));
}

export function logLabels(ticks) {
  const isEven = ticks.every((tick) => /^[125](e|$)/.test(tick.toExponential().replace(/e.*/, "")));
  return isEven ? ticks.map((tick) => number(tick).replace(/\.0+(?=\D*$)/, "")) : numberLabels(ticks);
}

export function sizeLabels(ticks) {
  return ticks.map((tick) => size(tick).replace(".0 ", " "));
}

export function spanLabels(ticks) {
  const isFine = leastStep(ticks) < 1;
  const text = (tick) => (tick === 0 ? "0" : isFine ? `${numberLabels(ticks)[ticks.indexOf(tick)]} s` : duration(Math.abs(tick)));
  return ticks.map((tick) => (tick < 0 && !isFine ? `−${text(tick)}` : text(tick)));
}

// The time of day; the day where it is another than at the tick before.
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

export function clock(seconds, step = 1) {
  const at = new Date(seconds * 1000);
  const two = (value) => String(value).padStart(2, "0");
  const fine = step < 1 ? `.${String(at.getMilliseconds()).padStart(3, "0")}` : "";
  const time = `${two(at.getHours())}:${two(at.getMinutes())}${step < 60 ? `:${two(at.getSeconds())}${fine}` : ""}`;
  return { day: at.toLocaleDateString("en-US", { month: "short", day: "numeric" }), time };
}

function multiples(min, max, step) {
  const ticks = [];
  const first = Math.ceil(min / step - 1e-9);
  if (!Number.isFinite(first) || step <= 0) return ticks;
  const digits = Math.min(20, Math.max(0, 1 - Math.floor(Math.log10(step)))); // 0.3, not 0.30000000000000004
  for (let at = first; at * step <= max + step * 1e-9 && ticks.length < 200; at += 1) ticks.push(step < 1e-18 ? at * step : Number((at * step).toFixed(digits)) || 0);
  return ticks;
}

function nice(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return Number(([1, 2, 2.5, 5, 10].find((one) => one * power >= least * (1 - 1e-9)) * power).toPrecision(2));
}

// How many decimals it takes to write a step: of 0.25 two.
function places(step) {
  for (let found = 0; found < 12; found += 1) if (Math.abs(step * 10 ** found - Math.round(step * 10 ** found)) < 1e-6 * step * 10 ** found) return found;
  return 12;
}

function leastStep(ticks) {
  let least = Math.abs(ticks[0]) || 1;
  for (let at = 1; at < ticks.length; at += 1) least = Math.min(at > 1 ? least : Infinity, ticks[at] - ticks[at - 1]);
  return least;
}

function scientific(tick, step) {
  if (tick === 0) return "0";
  const [digits, power] = tick.toExponential(places(step / 10 ** Math.floor(Math.log10(Math.abs(tick)) + 1e-9))).split("e");
  return `${Number(digits)}e${Number(power)}`.replaceAll("-", "−");
}
