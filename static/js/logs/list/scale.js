// Where a view stands in a list, in lines (`top`, with a fraction), and where its scroll bar does, in pixels.
export const ROW = 18; // px, the height of a line that is not wrapped
const HIGHEST = 12_000_000; // px: browsers draw no element that is higher than about 16 million

// {total lines, view px, row px on average} -> what the scroll bar has to show.
export function scaleOf(total, view, row = ROW) {
  const height = Math.min(HIGHEST, Math.max(0, total * row));
  return {
    total,
    view,
    row,
    height,
    most: Math.max(0, height - view),
    last: Math.max(0, total - view / row),
    isExact: total * row <= HIGHEST && row === ROW,
  };
}

// The place of the scroll bar for a view that begins at `top`.
export function barOf(top, scale) {
  if (scale.isExact) return Math.min(scale.most, top * ROW);
  return scale.last ? Math.min(1, top / scale.last) * scale.most : 0;
}

// What a move of the scroll bar means: {px} for a step (a wheel, a finger), which goes line by line however long the
// list is, or {top} for a leap (the bar was dragged).
export function moved(from, to, scale) {
  if (scale.isExact) return { top: Math.min(scale.last, to / ROW) };
  if (to <= 0) return { top: 0 };
  if (to >= scale.most - 1) return { top: scale.total }; // the end, wherever it is
  if (Math.abs(to - from) <= 2 * scale.view) return { px: to - from };
  return { top: (to / scale.most) * scale.last };
}

// The first line to draw so that line `index` is in view: "top", "middle", or "near" (moves as little as it can).
export function aimed(index, top, scale, where) {
  const inView = scale.view / scale.row;
  let wanted = top;
  if (where === "top") wanted = index;
  else if (where === "middle") wanted = index - inView / 2 + 0.5;
  else if (index < top) wanted = index;
  else if (index + 1 > top + inView) wanted = index + 1 - inView;
  return Math.max(0, Math.min(scale.last, wanted));
}
