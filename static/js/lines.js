// Pure: from the parts of a series to the columns and lines that a plot draws.
// Newest attempt wins: where a later attempt trained a step again, the old tail is a line of its own, drawn faint.

// Returns {x, columns: [{kind, key, y}], marks: [{x, attempt}], bad: [x], last: Map(key -> value), extremes: Map(key -> {min, max})}; kind is main, raw, ghost, low, high.
export function build(entry, { axis = "step", smoothing = 0, isLog = false, start = 0 }) {
  const tables = [];
  const columns = [];
  const marks = new Map();
  const bad = [];
  const last = new Map();
  const extremes = new Map();
  const add = (kind, key, x, y) => {
    if (!x.length) return;
    tables.push({ x, y });
    columns.push({ kind, key });
  };
  for (const [key, line] of entry.lines) {
    const { main, ghosts } = split(line.parts, axis, start, marks);
    if (main.value.length) last.set(key, (main.last ?? main.value).at(-1));
    const found = extent(main.min ?? main.value, main.max ?? main.value);
    if (found) extremes.set(key, found);
    const clean = main.value.map((value, at) => {
      if (value !== null && !Number.isFinite(value)) bad.push(main.x[at]);
      return plottable(value, isLog);
    });
    if (main.min) {
      add("low", key, main.x, main.min.map((value) => plottable(value, isLog)));
      add("high", key, main.x, main.max.map((value) => plottable(value, isLog)));
    }
    if (smoothing > 0 && clean.length > 2) {
      if (!main.min) add("raw", key, main.x, clean); // a band is shadow enough
      add("main", key, main.x, smooth(main.x, clean, smoothing));
    } else {
      add("main", key, main.x, clean);
    }
    for (const ghost of ghosts) add("ghost", key, ghost.x, ghost.value.map((value) => plottable(value, isLog)));
  }
  return { ...join(tables), columns, marks: [...marks].map(([attempt, x]) => ({ attempt, x })), bad, last, extremes };
}

function split(parts, axis, start, marks) {
  const attempts = [...parts.keys()].sort((a, b) => a - b);
  const main = { x: [], value: [], min: null, max: null, last: null };
  const ghosts = [];
  const hasBands = [...parts.values()].some((part) => part.min);
  if (hasBands) Object.assign(main, { min: [], max: [], last: [] });
  let limit = Infinity; // the first step that a later attempt trained again
  const pieces = [];
  for (const attempt of attempts.toReversed()) {
    const part = sorted(parts.get(attempt));
    const x = axis === "step" ? part.step : part.time.map((time) => time - start);
    let cut = x.length;
    if (axis === "step") while (cut > 0 && part.step[cut - 1] >= limit) cut -= 1;
    pieces.unshift({ attempt, x, part, cut });
    if (part.step.length) limit = Math.min(limit, part.step[0]);
  }
  pieces.forEach(({ attempt, x, part, cut }, index) => {
    if (index > 0 && x.length && main.x.length && axis === "time") rest(main, (main.x.at(-1) + x[0]) / 2);
    if (index > 0 && x.length) marks.set(attempt, Math.min(marks.get(attempt) ?? Infinity, x[0]));
    for (let at = 0; at < cut; at += 1) {
      main.x.push(x[at]);
      main.value.push(part.value[at]);
      if (hasBands) {
        main.min.push((part.min ?? part.value)[at]);
        main.max.push((part.max ?? part.value)[at]);
        main.last.push((part.last ?? part.value)[at]);
      }
    }
    if (cut < x.length) ghosts.push({ x: x.slice(Math.max(0, cut - 1)), value: part.value.slice(Math.max(0, cut - 1)) });
  });
  return { main, ghosts };
}

// Between two attempts nothing was trained: on a time axis that is a gap.
function rest(main, x) {
  main.x.push(x);
  main.value.push(null);
  for (const column of [main.min, main.max, main.last]) column?.push(null);
}

// Points may arrive late and out of order; a plot needs its steps rising, one value each (the last that came).
function sorted(part) {
  let isRising = true;
  for (let at = 1; at < part.step.length && isRising; at += 1) isRising = part.step[at] > part.step[at - 1];
  if (isRising) return part;
  const order = part.step.map((_, at) => at).sort((a, b) => part.step[a] - part.step[b] || part.time[a] - part.time[b]);
  const kept = order.filter((at, place) => place === order.length - 1 || part.step[order[place + 1]] !== part.step[at]);
  const pick = (column) => column && kept.map((at) => column[at]);
  return { step: pick(part.step), time: pick(part.time), value: pick(part.value), min: pick(part.min), max: pick(part.max), last: pick(part.last) };
}

// The smallest and the largest finite value; null where there is none.
function extent(lows, highs) {
  const min = lows.reduce((least, value) => (value !== null && Number.isFinite(value) && value < least ? value : least), Infinity);
  const max = highs.reduce((most, value) => (value !== null && Number.isFinite(value) && value > most ? value : most), -Infinity);
  return min <= max ? { min, max } : null;
}

function plottable(value, isLog) {
  return value === null || !Number.isFinite(value) || (isLog && value <= 0) ? null : value;
}

// Exponential mean whose memory is in units of x, so that uneven spacing does not change the look; a gap stays a gap.
export function smooth(x, y, amount) {
  const range = x.at(-1) - x[0] || 1;
  const weight = Math.min(Math.sqrt(amount), 0.999);
  let mean = 0;
  let debias = 0;
  let before = x[0];
  return y.map((value, at) => {
    if (value === null) return null;
    const fade = weight ** (((x[at] - before) / range) * 1000 || 0);
    before = x[at];
    mean = (mean * debias * fade + value) / (debias * fade + 1);
    debias = debias * fade + 1;
    return mean;
  });
}

// One rising x for all; where a line has no point there is `undefined` (no gap), where its value is not finite `null` (a gap).
function join(tables) {
  if (tables.length === 0) return { x: [], ys: [] };
  const isShared = tables.every(({ x }) => x === tables[0].x || (x.length === tables[0].x.length && x.every((value, at) => value === tables[0].x[at])));
  if (isShared) return { x: tables[0].x, ys: tables.map(({ y }) => y) };
  const x = [...new Set(tables.flatMap((table) => table.x))].sort((a, b) => a - b);
  const place = new Map(x.map((value, at) => [value, at]));
  const ys = tables.map((table) => {
    const y = new Array(x.length);
    table.x.forEach((value, at) => (y[place.get(value)] = table.y[at]));
    return y;
  });
  return { x, ys };
}
