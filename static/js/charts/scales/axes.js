// The two axes of a plot: their look, where they have ticks, and what stands there.
import { colour, faded } from "../../shared/colours.js";
import { count, percent, points, seconds, size, speed } from "../../shared/format.js";
import * as labels from "./labels.js";
import { clockTicks, linearTicks, logTicks, sizeTicks, spanTicks } from "./ticks.js";

/** @typedef {(min: number, max: number, most: number) => number[]} Find */
/** @typedef {(ticks: number[]) => string[]} Write */
/** @typedef {{at: number, label: string}} Tick */
/** @typedef {(value: number) => string} Format */
/** @typedef {{axis: Axis, isLogX: boolean, isLogY: boolean, format: Format}} AxesLook */
/** @type {Record<Axis, [Find, Write]>} */
const KINDS = {
  step: [(low, high, most) => linearTicks(low, high, most, true), labels.stepLabels],
  relative: [spanTicks, labels.spanLabels],
  time: [clockTicks, labels.clockLabels],
  value: [linearTicks, labels.numberLabels],
};
// How the values of an axis stand there follows from how the metric's values are written.
/** @type {Map<Format, [Find, Write]>} */
const VALUES = new Map([
  [size, [sizeTicks, labels.sizeLabels]],
  [speed, [sizeTicks, labels.speedLabels]],
  [percent, [linearTicks, (ticks) => labels.shareLabels(ticks, 100)]],
  [points, [linearTicks, (ticks) => labels.shareLabels(ticks, 1)]],
  [seconds, [linearTicks, labels.secondsLabels]],
]);
const MOST = 11; // ticks, however much room there is

/** format: how the metric's values are written. ticks(min, max, pixels) -> [{at, label}]. @param {AxesLook} look */
export function axesOf({ axis, isLogX, isLogY, format }) {
  /** @type {[Find, Write]} */
  const x =
    isLogX && axis !== "time" ? [logTicks, axis === "relative" ? labels.spanLabels : labels.logLabels] : KINDS[axis];
  /** @type {[Find, Write]} */
  const y = isLogY ? [logTicks, logWriter(format)] : (VALUES.get(format) ?? KINDS.value);
  return {
    x: { ticks: ticksOf(x, axis === "time" ? 74 : 52) },
    y: { ticks: ticksOf(y, 34), width: widthOf },
    text: colour("faint"),
    tick: colour("line"),
    grid: faded(colour("line-strong"), 0.4),
  };
}

// Ticks of a logarithm are far apart: where values have a unit, each is written as they are.
/** @param {Format} format @returns {Write} */
function logWriter(format) {
  return VALUES.has(format) ? (ticks) => ticks.map((tick) => format(tick).replace(".0 ", " ")) : labels.logLabels;
}

// room: pixels between two ticks. Steps that are written out need more the longer they are.
/** @param {[Find, Write]} kind @param {number} room @returns {(min: number, max: number, pixels: number) => Tick[]} */
function ticksOf([find, write], room) {
  return (min, max, pixels) => {
    const isLong = write === labels.stepLabels && max - min < 1000 * MOST;
    const needed = isLong ? Math.max(room, 14 + 6.4 * count(max).length) : room;
    const found = find(min, max, Math.min(MOST, Math.max(2, Math.floor(pixels / needed))));
    const texts = write(found);
    return found.map((at, which) => ({ at, label: texts[which] }));
  };
}

/** What the labels of y need beside the plot. @param {Tick[]} ticks */
const widthOf = (ticks) => 16 + 6.4 * ticks.reduce((most, { label }) => Math.max(most, label.length), 0);
