// Pure: the points of one series in one attempt, as equally long Float64Arrays {step, time, value, min, max, last,
// num_nan}. Where they are points and not buckets, min, max and last are null; num_nan, of buckets, where none of them
// has a NaN. What a column shows is never written to again. seams: the places before which points began to lie more or
// less densely than before (buckets end, points begin).
const COLUMNS = ["step", "time", "value"];
const BANDS = ["min", "max", "last"];
const ALL = [...COLUMNS, ...BANDS, "num_nan"];

// Of a series as an answer or a message has it. In messages "NaN" and "Infinity" are texts; Number() reads them.
export function partOf(series) {
  const isBuckets = series.kind === "buckets";
  const band = (name) => (isBuckets ? floats(series[name]) : null);
  const value = floats(isBuckets ? series.mean : series.value);
  return {
    step: floats(series.step),
    time: floats(series.time),
    value,
    min: band("min"),
    max: band("max"),
    last: band("last"),
    num_nan: series.num_nan ? floats(series.num_nan) : null,
    seams: [],
  };
}

// The one part after the other. Among buckets, a point is a bucket of its own.
export function joined(one, other) {
  if (!one?.step.length) return other;
  if (!other?.step.length) return one;
  const length = one.step.length;
  const whole = { seams: [...one.seams, length, ...other.seams.map((seam) => seam + length)] };
  for (const name of COLUMNS) whole[name] = concat([one[name], other[name]]);
  for (const name of BANDS)
    whole[name] = one.min || other.min ? concat([one[name] ?? one.value, other[name] ?? other.value]) : null;
  whole.num_nan =
    one.num_nan || other.num_nan
      ? concat([one, other].map((part) => part.num_nan ?? new Float64Array(part.step.length)))
      : null;
  return whole;
}

// As joined(), for points that keep coming: there is room behind the columns, so that mostly nothing is copied.
export function grown(part, more) {
  if (!part?.step.length || !more.step.length || (more.min && !part.min)) return joined(part, more);
  const from = part.step.length;
  const length = from + more.step.length;
  const room = part.room?.used === from && part.room.step.length >= length ? part.room : roomFor(part, length);
  const whole = { seams: part.min && !part.hasPoints ? [...part.seams, from] : part.seams, hasPoints: true, room };
  for (const name of ALL) {
    if (room[name] && name !== "num_nan") room[name].set(more[name] ?? more.value, from);
    whole[name] = room[name]?.subarray(0, length);
  }
  room.used = length; // who grows an older view of this room copies it
  return whole;
}

function roomFor(part, length) {
  const room = { used: 0 };
  for (const name of ALL) {
    room[name] = part[name] && new Float64Array(Math.max(64, Math.ceil(1.5 * length)));
    room[name]?.set(part[name]);
  }
  return room;
}

export function slice(part, start, end = part.step.length) {
  const piece = { seams: part.seams.filter((seam) => seam > start && seam < end).map((seam) => seam - start) };
  for (const name of ALL) piece[name] = part[name]?.subarray(start, end);
  return piece;
}

// The part with finer points in the place of what it has in the window {axis, from, to}.
export function spliced(part, fine, { axis, from, to }) {
  const along = part[axis];
  const last = fine[axis].at(-1) ?? from;
  // What was pushed after the window was read lies inside it, and behind its last point.
  const isNewer = newerThan(part, along, fine, last);
  if (!isRising(along))
    return (
      joined(
        pick(part, (at) => along[at] < from || along[at] > to || isNewer(at)),
        fine,
      ) ?? fine
    );
  const head = lowerBound(along, from);
  const tail = upperBound(along, to);
  let newer = tail;
  while (fine.step.length && newer > head && isNewer(newer - 1)) newer -= 1;
  return joined(joined(slice(part, 0, head), fine), slice(part, newer)) ?? fine;
}

function newerThan(part, along, fine, last) {
  const step = fine.step.at(-1);
  return (at) => along[at] > last && part.step[at] > step;
}

// The points at the places that fit, in their order.
export function pick(part, isIt) {
  const places = [];
  for (let at = 0; at < part.step.length; at += 1) if (isIt(at)) places.push(at);
  return taken(part, places);
}

// The points at these places.
export function taken(part, places) {
  const whole = { seams: [] };
  for (const name of ALL) whole[name] = part[name] && Float64Array.from(places, (at) => part[name][at]);
  return whole;
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

export function isRising(column) {
  for (let at = 1; at < column.length; at += 1) if (!(column[at] > column[at - 1])) return false;
  return true;
}

// The first place whose value is at least x, in a column that does not fall.
export function lowerBound(column, x) {
  let [low, high] = [0, column.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The first place whose value is more than x.
export function upperBound(column, x) {
  let [low, high] = [0, column.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[middle] <= x) low = middle + 1;
    else high = middle;
  }
  return low;
}
