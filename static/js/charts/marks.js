// What a plot draws beside its lines: dashed lines where an attempt began, red ticks where a value was not finite.
import { colour, faded } from "../colours.js";

export function drawMarks(u, marks) {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.strokeStyle = faded(colour("muted"), 0.7);
  ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const { x } of marks) {
    if (x < u.scales.x.min || x > u.scales.x.max) continue;
    const at = Math.round(u.valToPos(x, "x", true));
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

export function drawBad(u, bad) {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.fillStyle = colour("red");
  const size = 5 * devicePixelRatio;
  for (const x of bad) {
    if (x < u.scales.x.min || x > u.scales.x.max) continue;
    ctx.fillRect(u.valToPos(x, "x", true) - 1, bbox.top + bbox.height - size, 2 * devicePixelRatio, size);
  }
  ctx.restore();
}
