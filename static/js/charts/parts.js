// Pure: the points of one series in one attempt, as equally long Float64Arrays {step, time, value, min, max, last}.
// Where they are points and not buckets, min, max and last are null. Arrays may be shared: they are never written to.

// Of a series as an answer or a message has it. In messages "NaN" and "Infinity" are texts; Number() reads them.
export function partOf(series) {
  const isBuckets = series.kind === "buckets";
  const part = { step: floats(series.step), time: floats(series.time), value: floats(isBuckets ? series.mean : series.value), min: null, max: null, last: null };
  if (isBuckets) Object.assign(part, { min: floats(series.min), max: floats(series.max), last: floats(series.last) });
  return part;
}

// The one part after the other. Among buckets, a point is a bucket of its own.
export function joined(one, other) {
  if (!one?.step.length) return other;
  if (!other?.step.length) return one;
  const isBuckets = one.min || other.min;
  const join = (name) => concat([one[name] ?? one.value, other[name] ?? other.value]);
  const band = (name) => (isBuckets ? join(name) : null);
  return { step: join("step"), time: join("time"), value: join("value"), min: band("min"), max: band("max"), last: band("last") };
}

export function slice(part, start, end) {
  const cut = (column) => column && column.subarray(start, end);
  return { step: cut(part.step), time: cut(part.time), value: cut(part.value), min: cut(part.min), max: cut(part.max), last: cut(part.last) };
}

// The part with finer points in the place of what it has in the window {axis, from, to}.
export function spliced(part, fine, { axis, from, to }) {
  const along = part[axis];
  const place = (isIt) => {
    const found = along.findIndex(isIt);
    return found < 0 ? along.length : found;
  };
  const head = place((x) => x >= from);
  const tail = place((x) => x > to);
  const last = fine[axis].at(-1);
  // What was pushed after the window was read lies inside it, and behind its last point.
  const newer = last === undefined ? tail : Math.min(tail, Math.max(head, place((x) => x > last)));
  return joined(joined(slice(part, 0, head), fine), slice(part, newer)) ?? fine;
}

// Points may arrive late and out of order; a plot needs its steps rising, one value each (the last that came).
export function rising(part) {
  const { step, time } = part;
  let isRising = true;
  for (let at = 1; at < step.length && isRising; at += 1) isRising = step[at] > step[at - 1];
  if (isRising) return part;
  const order = Array.from(step.keys()).sort((a, b) => step[a] - step[b] || time[a] - time[b]);
  const kept = order.filter((at, place) => place === order.length - 1 || step[order[place + 1]] !== step[at]);
  const pick = (column) => column && Float64Array.from(kept, (at) => column[at]);
  return { step: pick(step), time: pick(time), value: pick(part.value), min: pick(part.min), max: pick(part.max), last: pick(part.last) };
}

export function concat(columns) {
  if (columns.length === 1) return columns[0];
  const whole = new Float64Array(columns.reduce((length, column) => length + column.length, 0));
  let at = 0;
  for (const column of columns) {
    whole.set(column, at);
    at += column.length;
  }
  return whole;
}

function floats(column) {
  return column instanceof Float64Array ? column : Float64Array.from(column, Number);
}
