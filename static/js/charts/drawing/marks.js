// What a plot draws beside its lines: dashed lines where an attempt began or a value broke a rule, red signs where a
// value was not finite.
import { colour, faded } from "../../shared/colours.js";

/** @type {Record<string, string>} */
const TOKENS = { alarm: "amber", note: "accent", checkpoint: "faint" };

/** @param {import("./frame.js").Frame} frame @param {Mark[]} marks */
export function drawMarks(frame, marks) {
  const { ctx, bbox } = frame;
  ctx.save();
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const { x, kind } of marks) {
    if (x < frame.x.min || x > frame.x.max) continue;
    const at = Math.round(frame.leftOf(x)) + 0.5;
    ctx.strokeStyle = faded(colour(TOKENS[kind ?? ""] ?? "muted"), 0.75);
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

// NaN is a tick on the axis; the infinities are triangles that point where the value went.
/** @param {import("./frame.js").Frame} frame @param {BadPoint[]} bad */
export function drawBad(frame, bad) {
  if (!bad.length) return;
  const { ctx, bbox } = frame;
  const unit = devicePixelRatio;
  const bottom = bbox.top + bbox.height;
  const seen = new Set(); // one sign for all that fall on one pixel
  ctx.save();
  ctx.fillStyle = colour("red");
  ctx.beginPath();
  for (const { x, value } of bad) {
    if (x < frame.x.min || x > frame.x.max) continue;
    const at = Math.round(frame.leftOf(x));
    const sign = `${at} ${value}`;
    if (seen.has(sign)) continue;
    seen.add(sign);
    if (Number.isNaN(value)) ctx.rect(at - unit, bottom - 6 * unit, 2 * unit, 6 * unit);
    else if (value > 0) triangle(ctx, at, bbox.top, 5 * unit, 7 * unit);
    else triangle(ctx, at, bottom, 5 * unit, -7 * unit);
  }
  ctx.fill();
  ctx.restore();
}

/** @param {CanvasRenderingContext2D} ctx @param {number} left @param {number} tip @param {number} half
 * @param {number} height */
function triangle(ctx, left, tip, half, height) {
  ctx.moveTo(left, tip);
  ctx.lineTo(left - half, tip + height);
  ctx.lineTo(left + half, tip + height);
  ctx.closePath();
}
