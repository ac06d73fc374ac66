// Pure: the stretch of an axis that finer points are loaded for.

// What is loaded: as much again on either side together, so that there is something to pan to.
/** @param {Axis} axis @param {Span | null} range @returns {AxisWindow | null} */
export function windowOf(axis, range) {
  if (!range) return null;
  const half = (range[1] - range[0]) / 2;
  const [from, to] = [range[0] - half, range[1] + half];
  return axis === "step" ? { axis, from: Math.floor(from), to: Math.ceil(to) } : { axis, from, to };
}

// The window as the points of a run have it: in steps, or in Unix seconds.
/**
 * @param {AxisWindow & {origins: Record<string, number>}} window @param {string} run
 * @returns {{axis: "step" | "time", from: number, to: number}}
 */
export function stretchOf({ axis, from, to, origins }, run) {
  if (axis === "step") return { axis, from, to };
  const shift = axis === "relative" ? (origins[run] ?? 0) : 0;
  return { axis: "time", from: from + shift, to: to + shift };
}

/** @param {AxisWindow | null | undefined} one @param {AxisWindow | null | undefined} other */
export function isSame(one, other) {
  if (!one || !other) return false;
  return one.axis === other.axis && one.from === other.from && one.to === other.to;
}

/** @param {{from: number, to: number}} window @param {Span} range */
export function covers({ from, to }, range) {
  return from <= range[0] && to >= range[1];
}
