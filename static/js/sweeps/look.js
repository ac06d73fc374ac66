// The page's own look, as options of ECharts. A tooltip is drawn on the canvas: as HTML it would carry inline styles,
// which the content-security policy forbids.
import { numberLabels } from "../charts/scales/labels.js";
import { linearTicks } from "../charts/scales/ticks.js";
import { colour, seriesColour } from "../shared/colours.js";
import { number, tick } from "../shared/format.js";

const FONT = "Inter Variable, system-ui, sans-serif";
/** @type {Record<string, string>} */
const STATES = { complete: "green", pruned: "grey", failed: "red", running: "blue", waiting: "faint" };

// words: what a tooltip says of what it is about; more: how it looks.
/** @param {((about: any) => string) | undefined} [words] @param {Sweeps.Option} [more] @returns {Sweeps.Option} */
export function base(words, more) {
  return {
    textStyle: { fontFamily: FONT, fontSize: 11, color: colour("muted") },
    tooltip: {
      renderMode: "richText",
      confine: true,
      backgroundColor: colour("raised"),
      borderColor: colour("line"),
      textStyle: { fontFamily: FONT, fontSize: 12, color: colour("text") },
      formatter: words,
      ...more,
    },
  };
}

/** @param {Sweeps.Option} more @returns {Sweeps.Option} */
export function axis(more) {
  return {
    type: "value",
    axisLine: { lineStyle: { color: colour("line-strong") } },
    axisTick: { show: false },
    splitLine: { lineStyle: { color: colour("line") } },
    nameTextStyle: { color: colour("muted"), fontFamily: FONT },
    ...more,
    axisLabel: { color: colour("muted"), fontFamily: FONT, hideOverlap: true, ...more.axisLabel },
  };
}

// From low to high in even steps that no label repeats; both ends are such steps. `most`: about how many there are.
/** @param {number} low @param {number} high @param {number} [most] @returns {Sweeps.Option} */
export function evenly(low, high, most = 5) {
  if (!(low < high)) return evenly(low - (Math.abs(low) / 10 || 0.5), low + (Math.abs(low) / 10 || 0.5), most);
  const [first, second] = linearTicks(low, high, most);
  if (second === undefined) return evenly(low, high, most + 1);
  const interval = second - first;
  const [from, to] = [Math.floor(low / interval + 1e-6), Math.ceil(high / interval - 1e-6)];
  const ticks = linearTicks(from * interval, to * interval, to - from);
  const labels = numberLabels(ticks);
  const formatter = (/** @type {number} */ at) => labels[Math.round(at / interval) - from] ?? "";
  return { min: ticks[0], max: ticks[ticks.length - 1], interval, axisLabel: { formatter } };
}

// The axis of a field: its choices, or its range.
/** @param {Sweeps.Field} field @param {Sweeps.Option} more @returns {Sweeps.Option} */
export function fieldAxis(field, more = {}) {
  if (field.choices.length) return axis({ type: "category", data: field.choices, ...more });
  return axis({
    ...(field.isLog && { type: "log" }),
    min: field.low,
    max: field.high,
    ...more,
    axisLabel: { formatter: tick, ...more.axisLabel },
  });
}

/** @param {Sweeps.Columns} columns @param {number} number */
export const nameOf = ({ names }, number) => names?.[number] ?? `Trial ${number}`;

/** @param {string} state */
export const stateColour = (state) => colour(STATES[state] ?? "muted");

// What the colours of a ramp mean, by the values at its ends.
/** @param {string} metric @param {number} min @param {number} max @returns {Sweeps.Option} */
export function legend(metric, min, max) {
  const name = metric.length > 24 ? `${metric.slice(0, 23)}…` : metric;
  return {
    type: "continuous",
    min,
    max,
    orient: "horizontal",
    left: "center",
    bottom: 0,
    itemWidth: 10,
    itemHeight: 120,
    hoverLink: false,
    text: [shown(max), `${name}  ${shown(min)}`],
    textStyle: { color: colour("muted"), fontFamily: FONT, fontSize: 11 },
  };
}

/** From what is worse to what is better. @param {string} direction */
export function ramp(direction) {
  const colours = [colour("line-strong"), seriesColour(0), seriesColour(1)];
  return direction === "maximize" ? colours : colours.reverse();
}

// The range of most values: what a diverged trial reached would leave the others one colour.
/** @param {(number | null)[]} values @returns {[number, number]} */
export function usualRange(values) {
  const known = values.filter((one) => one !== null).sort((a, b) => a - b);
  if (!known.length) return [0, 1];
  const [low, high] = [0.02, 0.9].map((share) => known[Math.min(known.length - 1, Math.floor(share * known.length))]);
  return low < high ? [low, high] : [low - 0.5, low + 0.5];
}

/** The usual range with a share of it as room, as far as values reach. @param {(number | null)[]} values
 * @param {number} share @returns {[number, number]} */
export function roomyRange(values, share) {
  const known = values.filter((one) => one !== null);
  if (!known.length) return [0, 1];
  const [low, high] = usualRange(known);
  const room = (high - low) * share;
  const [least, most] = [known.reduce((a, b) => Math.min(a, b), high), known.reduce((a, b) => Math.max(a, b), low)];
  return [Math.max(least, low - room), Math.min(most, high + room)];
}

/** @param {number | string | null | undefined} value */
export const shown = (value) => (typeof value === "string" ? value : number(value));
