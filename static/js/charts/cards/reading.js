// Pure: what stands where in a chart that was built.
import { count, duration, metric } from "../../shared/format.js";
import { clock } from "../scales/labels.js";
import { lowerBound, nearestPlace } from "../scales/views.js";

const SIGN_PX = 10;
const FAR = 400; // places; what is further off is not said to be here

const READ = ["main", "low", "high"]; // columns that have something to read: lines, and the edges of bands
const isGap = (value) => value === null || value === undefined || value !== value;

// The place of the point nearest to the pointer among those within `near` pixels of it sideways, by both directions;
// else the nearest sideways.
export function snap(plot, left, top, near = 5) {
  const { built } = plot;
  const middle = nearestPlace(built.x, plot.toValue(left));
  const from = Math.min(middle, lowerBound(built.x, plot.toValue(left - near)));
  const to = Math.max(middle, lowerBound(built.x, plot.toValue(left + near)) - 1);
  let [found, key, least] = [middle, null, Infinity];
  built.columns.forEach((column, which) => {
    if (!READ.includes(column.kind)) return;
    for (let at = from; at <= to; at += 1) {
      const value = built.ys[which][at];
      if (isGap(value)) continue;
      const [aside, above] = [plot.toLeft(built.x[at]) - left, plot.toTop(value) - top];
      const distance = aside * aside + above * above;
      if (distance < least) [found, key, least] = [at, column.key, distance];
    }
  });
  // The sign of what is no number, where the pointer is at it.
  const sign = built.bad.find(
    ({ x, value }) =>
      Math.abs(plot.toLeft(x) - left) <= near && Math.abs(top - (value > 0 ? 0 : plot.height)) < SIGN_PX,
  );
  if (sign) return { place: nearestPlace(built.x, sign.x), key: null, distance: Infinity };
  return { place: found, key, distance: Math.sqrt(least) };
}

// Map(key -> {x, value, low, high}) of each line at a place; one that has no point there is read at its nearest.
export function valuesAt({ x, ys, columns }, place) {
  const found = new Map();
  columns.forEach(({ kind, key }, which) => {
    if (kind !== "main") return;
    const at = nearestWith(ys[which], x, place, 2 * columns.length);
    if (at === null) return;
    const isBand = columns[which - 1]?.kind === "high" && columns[which - 1].key === key;
    found.set(key, {
      x: x[at],
      value: ys[which][at],
      low: isBand ? ys[which - 2][at] : null,
      high: isBand ? ys[which - 1][at] : null,
    });
  });
  return found;
}

// What is no number at this x; undefined where all is well.
export function badAt(built, x) {
  built.badByX ??= new Map(built.bad?.map((one) => [one.x, one.value]));
  return built.badByX.get(x);
}

// The next place in a direction where some line has a point, be it no number; null at the end.
export function nextPlace(built, place, step) {
  const { x, ys, columns } = built;
  const lines = ys.filter((_, which) => columns[which].kind === "main");
  for (let at = place + step; at >= 0 && at < x.length; at += step)
    if (lines.some((y) => !isGap(y[at])) || badAt(built, x[at]) !== undefined) return at;
  return null;
}

export function where(x, axis) {
  const own = axis.startsWith("value ") ? axis.slice(axis.indexOf(" ") + 1) : "";
  if (own) return `${own} ${metric(x, own)}`;
  if (axis === "step") return `step ${count(x)}`;
  if (axis === "relative") return x < 0 ? `−${duration(-x)}` : duration(x);
  const { day, time } = clock(x);
  return `${day} ${time}`;
}

// Between two points of a line the nearer one; before its first and behind its last only what is close by.
function nearestWith(y, x, place, close) {
  const [right, left] = [1, -1].map((step) => {
    let at = place;
    while (y[at] === undefined && at >= 0 && at < y.length && Math.abs(at - place) < FAR) at += step;
    return isGap(y[at]) ? null : at;
  });
  if (right === null || left === null) {
    const only = right ?? left;
    return only !== null && Math.abs(only - place) <= close ? only : null;
  }
  return x[right] - x[place] < x[place] - x[left] ? right : left;
}
