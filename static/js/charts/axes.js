// The two axes of a plot: their look, where they have ticks, and what stands there.
import { colour, faded } from "../colours.js";
import { count, duration, number, size, tick } from "../format.js";

const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 172800, 604800];
const POWERS = Array.from({ length: 60 }, (_, power) => 2 ** power);

// axis: "step" or "time"; format: how the metric's values are written.
export function axesOf(axis, format) {
  const isBytes = format === size;
  const ticks = { stroke: colour("line"), width: 1, size: 4 };
  const axes = { stroke: colour("faint"), font: "11px Inter Variable, sans-serif", ticks, grid: { stroke: faded(colour("line-strong"), 0.4), width: 1 } };
  return [
    { ...axes, size: 26, gap: 4, space: 56, ...(axis === "time" && { incrs: TIMES }), values: (_, values) => values.map((value) => (axis === "step" ? steps(value) : clock(value))) },
    { ...axes, size: width, gap: 4, space: 34, ...(isBytes && { incrs: POWERS }), values: (_, values) => values.map((value) => (value === null ? "" : isBytes ? size(value) : tick(value))) },
  ];
}

export function padded(_, low, high) {
  if (low === null) return [0, 1];
  const room = (high - low || Math.abs(high) || 1) * 0.06;
  return [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
}

function width(u, values) {
  const longest = (values ?? []).reduce((most, text) => Math.max(most, text.length), 0);
  return 16 + longest * 6.4;
}

function steps(value) {
  return Number.isInteger(value) ? (Math.abs(value) >= 1e5 ? number(value) : count(value)) : "";
}

function clock(value) {
  return value === 0 ? "0" : duration(value);
}
