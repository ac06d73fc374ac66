// Draws the columns of a chart into a canvas: each line within its own pixels, so that a million points cost as many
// strokes as there are pixels. In a column, undefined: no point here, the line goes on; null or NaN: a gap.
import { faded } from "../../shared/colours.js";
import { inView } from "../scales/ranges.js";
import { drawBand } from "./bands.js";

/** @typedef {import("../scales/scale.js").Scale} Scale */
/** @typedef {{colourOf: (key: string) => string, isLit: (key: string) => boolean | null}} LinesLook */
/**
 * @typedef {object} View
 * @property {Column} x
 * @property {number} first
 * @property {number} last
 * @property {Scale} scaleX
 * @property {Box} bbox
 * @property {(value: number) => number} toY
 * @property {number} dot
 */
const MANY = 12; // lines; with more they are thinner
const FEW = 14; // points; so few are drawn as dots too
let px = new Float64Array(4096);

// plot: a Frame, for its scales and its place; look: {colourOf(key) -> css, isLit(key) -> true, false, or null where
// nothing is lit}.
/** @param {import("./frame.js").Frame} plot @param {BuiltChart} built @param {LinesLook} look */
export function drawLines(plot, { x, ys, columns }, look) {
  if (!x.length) return;
  const { ctx, bbox } = plot;
  const [first, last] = inView(x, plot.x);
  place(x, Math.max(0, first - 1), Math.min(x.length, last + 1), plot.x, bbox);
  const frame = { x, first, last, scaleX: plot.x, bbox, toY: rule(plot.y, bbox), dot: 0 };
  const mains = columns.reduce((sum, { kind }) => sum + Number(kind === "main"), 0);
  const unit = devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top - 2, bbox.width, bbox.height + 4);
  ctx.clip();
  ctx.lineJoin = mains > MANY ? "bevel" : "round";
  for (const isTop of [false, true]) {
    for (const pass of ["high", "raw", "ghost", "main"]) {
      columns.forEach(({ kind, key }, at) => {
        const isLit = look.isLit(key);
        if (kind !== pass || (isLit === true) !== isTop) return;
        const paint = look.colourOf(key);
        const strength = isLit === false ? 0.22 : 1;
        if (pass === "high") {
          const [from, to] = reach(ys[at], frame);
          const isOfMany = mains > MANY && !isLit;
          // Many that lie over one another are as dark as one.
          const faint = faded(paint, (isOfMany ? Math.max(0.04, 1.6 / mains) : 0.16) * strength);
          const strong = faded(paint, (isOfMany ? 0.4 : 0.6) * strength);
          return drawBand(ctx, ys[at - 1], ys[at], { from, to, px, toY: frame.toY }, { faint, strong, isOfMany });
        }
        ctx.strokeStyle = faded(paint, (pass === "main" ? 1 : pass === "raw" ? 0.3 : 0.42) * strength);
        ctx.lineWidth = (pass === "main" ? (isLit ? 2.2 : mains > MANY ? 1 : 1.6) : 1) * unit;
        ctx.setLineDash(pass === "ghost" ? [4 * unit, 3 * unit] : []);
        frame.dot = pass === "main" ? 2.5 * unit : 0;
        stroke(ctx, ys[at], frame);
      });
    }
  }
  ctx.restore();
}

/** @param {CanvasRenderingContext2D} ctx @param {Values} y @param {View} frame */
function stroke(ctx, y, frame) {
  const { toY, dot } = frame;
  const [from, to] = reach(y, frame);
  let column = NaN;
  let [lowest, highest, exit, run, points] = [0, 0, 0, 0, 0];
  /** @type {number[]} */
  const dots = [];
  const leave = () => {
    if (lowest !== highest) {
      ctx.lineTo(column, lowest);
      ctx.lineTo(column, highest);
      ctx.lineTo(column, exit);
    }
  };
  ctx.beginPath();
  for (let at = from; at <= to; at += 1) {
    const value = y[at];
    if (value === undefined) continue;
    if (value === null || value !== value) {
      if (run) leave();
      if (run === 1) dots.push(column, exit);
      [column, run] = [NaN, 0];
      continue;
    }
    const top = toY(value);
    const left = px[at];
    points += 1;
    if (run && (left === column || Math.abs(left - column) < 0.5)) {
      if (top < lowest) lowest = top;
      if (top > highest) highest = top;
      exit = top;
      run += 1;
      continue;
    }
    if (run) leave();
    if (run) ctx.lineTo(left, top);
    else ctx.moveTo(left, top);
    column = left;
    lowest = highest = exit = top;
    run += 1;
    if (points <= FEW) dots.push(left, top);
  }
  if (run) leave();
  if (run === 1) dots.push(column, exit);
  ctx.stroke();
  if (dot && dots.length) mark(ctx, points <= FEW ? dots : dots.slice(2 * FEW), dot);
}

/** @param {CanvasRenderingContext2D} ctx @param {number[]} dots @param {number} radius */
function mark(ctx, dots, radius) {
  ctx.fillStyle = ctx.strokeStyle;
  ctx.beginPath();
  for (let at = 0; at < dots.length; at += 2) {
    ctx.moveTo(dots[at] + radius, dots[at + 1]);
    ctx.arc(dots[at], dots[at + 1], radius, 0, 7);
  }
  ctx.fill();
}

// From the last point before the view to the first behind it, so that a line enters and leaves.
/** @param {Values} y @param {View} frame */
function reach(y, { x, first, last, scaleX, bbox }) {
  let from = Math.max(0, first - 1);
  let to = Math.min(x.length - 1, last);
  while (from > 0 && y[from] === undefined) from -= 1;
  while (to < x.length - 1 && y[to] === undefined) to += 1;
  if (from < first - 1) place(x, from, first, scaleX, bbox);
  if (to > last) place(x, last, to + 1, scaleX, bbox);
  return [from, to];
}

/** @param {Column} x @param {number} from @param {number} to @param {Scale} scale @param {Box} bbox */
function place(x, from, to, scale, { left, width }) {
  if (px.length < x.length) px = new Float64Array(2 * x.length);
  const { isLog, low, high } = scale;
  const factor = width / (high - low);
  for (let at = from; at < to; at += 1) px[at] = left + ((isLog ? Math.log10(x[at]) : x[at]) - low) * factor;
}

/** @param {Scale} scale @param {Box} bbox @returns {(value: number) => number} */
function rule(scale, { top, height }) {
  const { isLog, low, high } = scale;
  const factor = height / (high - low);
  const [floor, ceiling] = [top - 1e5, top + height + 1e5];
  return (value) => {
    const at = top + (high - (isLog ? (value > 0 ? Math.log10(value) : -400) : value)) * factor;
    return at < floor ? floor : at > ceiling ? ceiling : at;
  };
}
