// Draws what lies between two columns, low and high: as an area, of very many lines as upright strokes; what juts out
// is never lost.
const JUTS_PX = 8; // and more than the band is high beside it: noise is no spike
const WIDE_PX = 4;
const ASIDE = 3; // pixels: what is wider is seen as an area

// Of each pixel that has points: where it is, the highest and the lowest of them, and whether a gap is before it.
const [lefts, tops, bottoms, gaps] = [1, 2, 3, 4].map(() => new Float64Array(16384));
let count = 0;

// path: the view of lines.js: {from, to, px, toY}; faint, strong: colours. Areas that lie over one another
// would be mud, and slow.
/** @param {CanvasRenderingContext2D} ctx @param {Values} low @param {Values} high @param {DrawnPath} path
 * @param {{faint: string, strong: string, isOfMany: boolean}} look */
export function drawBand(ctx, low, high, path, { faint, strong, isOfMany }) {
  gather(low, high, path);
  ctx.setLineDash([]);
  ctx.lineWidth = devicePixelRatio;
  if (isOfMany) strokes(ctx, faint);
  else area(ctx, faint);
  juts(ctx, strong);
}

/** @param {Values} low @param {Values} high @param {DrawnPath} path */
function gather(low, high, { from, to, px, toY }) {
  count = 0;
  let column = NaN;
  let gap = 0;
  for (let at = from; at <= to && count < lefts.length; at += 1) {
    const [upper, lower] = [high[at], low[at]];
    if (upper === undefined || lower === undefined) continue;
    if (upper === null || lower === null || !(upper >= lower)) {
      gap = 1;
      continue;
    }
    const [top, bottom] = [toY(upper), toY(lower)];
    const here = Math.floor(px[at]);
    if (here === column && !gap) {
      if (top < tops[count - 1]) tops[count - 1] = top;
      if (bottom > bottoms[count - 1]) bottoms[count - 1] = bottom;
      continue;
    }
    lefts[count] = px[at];
    tops[count] = top;
    bottoms[count] = bottom;
    gaps[count] = gap;
    count += 1;
    column = here;
    gap = 0;
  }
}

// Each as wide as what it stands for, unless that is so wide that they would be areas again. Rectangles of whole
// pixels: as one path of thousands of upright strokes, fifty bands cost a browser without a GPU 300 ms.
/** @param {CanvasRenderingContext2D} ctx @param {string} paint */
function strokes(ctx, paint) {
  ctx.fillStyle = paint;
  for (let at = 0; at < count; at += 1) {
    if (bottoms[at] - tops[at] < 1) continue;
    const [left, top] = [Math.floor(lefts[at]), Math.round(tops[at])];
    const isNear = at + 1 < count && !gaps[at + 1] && lefts[at + 1] - lefts[at] < WIDE_PX;
    const right = isNear ? Math.floor(lefts[at + 1]) : left + devicePixelRatio;
    ctx.fillRect(left, top, right - left, Math.round(bottoms[at]) - top);
  }
}

/** Piece by piece where there are gaps. @param {CanvasRenderingContext2D} ctx @param {string} paint */
function area(ctx, paint) {
  ctx.fillStyle = paint;
  ctx.beginPath();
  for (let start = 0; start < count; ) {
    let end = start + 1;
    while (end < count && !gaps[end]) end += 1;
    ctx.moveTo(lefts[start], tops[start]);
    for (let at = start + 1; at < end; at += 1) ctx.lineTo(lefts[at], tops[at]);
    for (let at = end - 1; at >= start; at -= 1) ctx.lineTo(lefts[at], bottoms[at]);
    start = end;
  }
  ctx.fill();
}

// One step among a million is a pixel wide: as an area nobody would see it.
/** @param {CanvasRenderingContext2D} ctx @param {string} paint */
function juts(ctx, paint) {
  ctx.strokeStyle = paint;
  ctx.beginPath();
  for (let at = 1; at < count - 1; at += 1) {
    if (bottoms[at] - tops[at] < 1) continue; // a point, which its line shows
    const [before, behind] = [Math.max(0, at - ASIDE), Math.min(count - 1, at + ASIDE)];
    const [roof, floor] = [Math.min(tops[before], tops[behind]), Math.max(bottoms[before], bottoms[behind])];
    const left = Math.floor(lefts[at]) + 0.5; // in the middle of a pixel a stroke is sharp
    const least = Math.max(JUTS_PX, floor - roof);
    if (tops[at] < roof - least) line(ctx, left, tops[at], roof);
    if (bottoms[at] > floor + least) line(ctx, left, floor, bottoms[at]);
  }
  ctx.stroke();
}

/** @param {CanvasRenderingContext2D} ctx @param {number} left @param {number} from @param {number} to */
function line(ctx, left, from, to) {
  ctx.moveTo(left, from);
  ctx.lineTo(left, to);
}
