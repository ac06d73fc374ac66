// Draws what lies between two columns, low and high: as an area, of very many lines as upright strokes; what juts out is never lost.
const JUTS_PX = 6;
const ASIDE = 3; // pixels: what is wider is seen as an area

const [lefts, tops, bottoms] = [1, 2, 3].map(() => new Float64Array(8192)); // of each pixel that has points
let count = 0;

// path: what lines.js knows of the view: {from, to, px, toY}; faint, strong: colours. Areas that lie over one another would be mud, and slow.
export function drawBand(ctx, low, high, path, { faint, strong, isOfMany }) {
  gather(low, high, path);
  ctx.setLineDash([]);
  ctx.lineWidth = devicePixelRatio;
  if (isOfMany) strokes(ctx, faint);
  else area(ctx, low, high, path, faint);
  juts(ctx, strong);
}

function gather(low, high, { from, to, px, toY }) {
  count = 0;
  for (let at = from; at <= to && count < lefts.length; at += 1) {
    if (high[at] === null || !(high[at] >= low[at])) continue; // nothing here
    const [top, bottom, left] = [toY(high[at]), toY(low[at]), Math.floor(px[at]) + 0.5];
    if (count && lefts[count - 1] === left) {
      tops[count - 1] = Math.min(tops[count - 1], top);
      bottoms[count - 1] = Math.max(bottoms[count - 1], bottom);
    } else {
      [lefts[count], tops[count], bottoms[count]] = [left, top, bottom];
      count += 1;
    }
  }
}

function strokes(ctx, paint) {
  ctx.strokeStyle = paint;
  ctx.beginPath();
  for (let at = 0; at < count; at += 1) if (bottoms[at] - tops[at] >= 1) line(ctx, lefts[at], tops[at], bottoms[at]);
  ctx.stroke();
}

// Piece by piece where there are gaps.
function area(ctx, low, high, { from, to, px, toY }, paint) {
  const isThere = (at) => low[at] !== null && high[at] !== null && low[at] === low[at] && high[at] === high[at];
  ctx.fillStyle = paint;
  ctx.beginPath();
  for (let start = from; start <= to; start += 1) {
    if (!isThere(start)) continue;
    let end = start;
    while (end < to && isThere(end + 1)) end += 1;
    let isFirst = true;
    for (let at = start; at <= end; at += 1) {
      if (high[at] === undefined) continue;
      if (isFirst) ctx.moveTo(px[at], toY(high[at]));
      else ctx.lineTo(px[at], toY(high[at]));
      isFirst = false;
    }
    for (let at = end; at >= start; at -= 1) if (low[at] !== undefined) ctx.lineTo(px[at], toY(low[at]));
    start = end;
  }
  ctx.fill();
}

// One step among a million is a pixel wide: as an area nobody would see it.
function juts(ctx, paint) {
  ctx.strokeStyle = paint;
  ctx.beginPath();
  for (let at = 0; at < count; at += 1) {
    const [before, behind] = [Math.max(0, at - ASIDE), Math.min(count - 1, at + ASIDE)];
    if (before === at || behind === at) continue;
    const [roof, floor] = [Math.min(tops[before], tops[behind]), Math.max(bottoms[before], bottoms[behind])];
    if (tops[at] < roof - JUTS_PX) line(ctx, lefts[at], tops[at], roof);
    if (bottoms[at] > floor + JUTS_PX) line(ctx, lefts[at], floor, bottoms[at]);
  }
  ctx.stroke();
}

function line(ctx, left, from, to) {
  ctx.moveTo(left, from);
  ctx.lineTo(left, to);
}
