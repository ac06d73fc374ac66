// Pure: the stretch of an axis that finer points are loaded for.

// What is loaded: as much again on either side together, so that there is something to pan to.
export function windowOf(axis, range) {
  if (!range) return null;
  const half = (range[1] - range[0]) / 2;
  const [from, to] = [range[0] - half, range[1] + half];
  return axis === "step" ? { axis, from: Math.floor(from), to: Math.ceil(to) } : { axis, from, to };
}

// The window as the points of a run have it: in steps, or in Unix seconds.
export function stretchOf({ axis, from, to, origins }, run) {
  if (axis === "step") return { axis, from, to };
  const shift = axis === "relative" ? (origins[run] ?? 0) : 0;
  return { axis: "time", from: from + shift, to: to + shift };
}

export function isSame(one, other) {
  return Boolean(one && other) && one.axis === other.axis && one.from === other.from && one.to === other.to;
}

export function covers({ from, to }, range) {
  return from <= range[0] && to >= range[1];
}
