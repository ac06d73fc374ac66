// The two axes of a plot: their look, where they have ticks, and what stands there.
import { colour, faded } from "../../shared/colours.js";
import { count, percent, points, seconds, size, speed } from "../../shared/format.js";
import { clockLabels, logLabels, numberLabels, secondsLabels, shareLabels, sizeLabels, spanLabels, speedLabels, stepLabels } from "./labels.js";
import { clockTicks, linearTicks, logTicks, sizeTicks, spanTicks } from "./ticks.js";

const KINDS = {
  step: [(low, high, most) => linearTicks(low, high, most, true), stepLabels],
  relative: [spanTicks, spanLabels],
  time: [clockTicks, clockLabels],
};
const NUMBER = [linearTicks, numberLabels];
// How the values of an axis stand there follows from how the metric's values are written.
const VALUES = new Map([
  [size, [sizeTicks, sizeLabels]],
  [speed, [sizeTicks, speedLabels]],
  [percent, [linearTicks, (ticks) => shareLabels(ticks, 100)]],
  [points, [linearTicks, (ticks) => shareLabels(ticks, 1)]],
  [seconds, [linearTicks, secondsLabels]],
]);
const MOST = 11; // ticks, however much room there is
const LOG = [logTicks, logLabels];

// axis: "step", "relative" or "time"; format: how the metric's values are written.
export function axesOf({ axis, isLogX, isLogY, format }) {
  const ticks = { stroke: colour("line"), width: 1, size: 4 };
  const look = { stroke: colour("faint"), font: "11px Inter Variable, sans-serif", ticks, grid: { stroke: faded(colour("line-strong"), 0.4), width: 1 }, filter: (u, splits) => splits };
  const x = isLogX && axis !== "time" ? [LOG[0], axis === "step" ? LOG[1] : spanLabels] : KINDS[axis];
  const y = isLogY ? [LOG[0], logWriter(format)] : (VALUES.get(format) ?? NUMBER);
  return [
    { ...look, ...named(x, axis === "time" ? 74 : 52), size: 26, gap: 4 },
    { ...look, ...named(y, 34), size: width, gap: 4 },
  ];
}

// Ticks of a logarithm are far apart: where values have a unit, each is written as they are.
function logWriter(format) {
  return VALUES.has(format) ? (ticks) => ticks.map((tick) => format(tick).replace(".0 ", " ")) : LOG[1];
}

// As uPlot wants them; room: pixels between two ticks. Steps that are written out need more the longer they are.
function named([find, write], room) {
  const needed = (min, max) => (write === stepLabels && max - min < 1000 * MOST ? Math.max(room, 14 + 6.4 * count(max).length) : room);
  const splits = (u, which, min, max) => find(min, max, Math.min(MOST, Math.max(2, Math.floor((which ? u.bbox.height : u.bbox.width) / devicePixelRatio / needed(min, max)))));
  return { splits, values: (u, found) => write(found) };
}

function width(u, labels) {
  const longest = (labels ?? []).reduce((most, text) => Math.max(most, text.length), 0);
  return 16 + longest * 6.4;
}
