// Pure: how a person looks at charts, as it is kept on the server. What is as at the start is not kept.
import { axisOf } from "../data/names.js";

const MOST = 1000; // names, runs, charts: what is kept stays small

export const DEFAULTS = Object.freeze({
  axis: "step",
  smoothing: { kind: "none", amount: 0 },
  isLogX: false,
  isLogY: false,
  ignoreOutliers: false,
  ranks: "lines",
  sort: { by: "name", isDescending: false },
  filter: "",
  collapsed: [],
  pinned: [],
  charts: {},
  group: null,
  hidden: [],
  colours: {},
  layout: null, // the project's
});

export const EMPTY_LAYOUT = Object.freeze({ sections: [], panels: {}, removed: [] });
const MOST_PANELS = 100;
const MOST_LINES = 12; // of a panel
const LONGEST = 500; // characters of a title or an expression

// Whatever was kept or typed, as a state: what is no good is as at the start.
export function tidy(raw) {
  const from = raw && typeof raw === "object" ? raw : {};
  return {
    axis: one(from.axis, ["step", "relative", "time"]),
    smoothing: smoothingOf(from.smoothing),
    isLogX: from.isLogX === true,
    isLogY: from.isLogY === true,
    ignoreOutliers: from.ignoreOutliers === true,
    ranks: one(from.ranks, ["lines", "band"]),
    sort: { by: one(from.sort?.by, ["name", "value", "min", "max"]), isDescending: from.sort?.isDescending === true },
    filter: typeof from.filter === "string" ? from.filter : "",
    collapsed: texts(from.collapsed),
    pinned: texts(from.pinned),
    charts: mapped(from.charts, overridesOf),
    group: groupOf(from.group),
    hidden: texts(from.hidden),
    colours: mapped(from.colours, (index) => (Number.isInteger(index) && index >= 0 && index < 10 ? index : null)),
    layout: layoutOf(from.layout),
  };
}

// What differs from the start: what is worth keeping.
export function trimmed(state) {
  const isOther = ([name, value]) => JSON.stringify(value) !== JSON.stringify(DEFAULTS[name]);
  return Object.fromEntries(Object.entries(state).filter(isOther));
}

// What is kept for a project is how the pages of its runs look, under the name of each other page how that one does,
// and what they share once: a scale that suits twelve runs is not taken along to each of them.
const SHARED = ["collapsed", "pinned", "colours", "layout"];

const OTHERS = ["compare", "beside"]; // a table

// What was kept (`raw`) as the state of such a page, "run" or another.
export const stateFor = (page, raw) => tidy(page === "run" ? raw : { ...raw?.[page], ...shared(raw) });

// What to keep when the page has this state, and `raw` is what was kept.
export function toKeep(page, raw, state) {
  const [mine, both] = [without(SHARED, trimmed(state)), shared(trimmed(state))];
  const run = page === "run" ? mine : without(SHARED, trimmed(tidy(raw)));
  const others = OTHERS.map((name) => [name, name === page ? mine : (raw?.[name] ?? {})]);
  return { ...run, ...both, ...Object.fromEntries(others.filter(([, own]) => Object.keys(own).length)) };
}

// One chart's options: its own, else the page's. A machine's health has no steps.
export function optionsOf(state, name) {
  const { smoothing, isLogX, isLogY, ignoreOutliers, ranks, sort, size } = { ...state, ...state.charts[name] };
  const axis = axisOf(name, state.axis);
  return { axis, smoothing, isLogX, isLogY, ignoreOutliers, ranks, sort, size: size ?? { columns: 1 } };
}

// With this chart's overrides changed; null gives back to the page's.
export function withOverride(state, name, patch) {
  const own = Object.entries({ ...state.charts[name], ...patch }).filter(([, value]) => value !== null);
  const others = Object.entries(state.charts).filter(([other]) => other !== name);
  return { ...state, charts: Object.fromEntries(own.length ? [...others, [name, Object.fromEntries(own)]] : others) };
}

const shared = (raw) => Object.fromEntries(SHARED.filter((name) => raw?.[name]).map((name) => [name, raw[name]]));

const without = (names, raw) => Object.fromEntries(Object.entries(raw).filter(([name]) => !names.includes(name)));

const one = (value, known) => (known.includes(value) ? value : known[0]);

function smoothingOf(raw) {
  const amount = Math.min(0.999, Math.max(0, Number(raw?.amount) || 0));
  const kind = one(raw?.kind, ["none", "ema", "mean", "gaussian"]);
  return kind === "none" || amount === 0 ? { kind: "none", amount: 0 } : { kind, amount };
}

function groupOf(raw) {
  return typeof raw?.by === "string" && raw.by ? { by: raw.by, band: one(raw.band, ["minmax", "sd", "ci"]) } : null;
}

// Which panels there are and where: sections: [{key, title, names}], in their order, each with what a person put there;
// panels: {key: {title, lines, x}}, lines as expressions, x a series or ""; removed: series that have no chart.
export function layoutOf(raw) {
  if (!raw || typeof raw !== "object" || Array.isArray(raw)) return null;
  const sections = (Array.isArray(raw.sections) ? raw.sections : [])
    .filter((one) => typeof one?.key === "string" && one.key)
    .map(({ key, title, names }) => ({ key, title: textOf(title), names: texts(names) }));
  const panels = Object.entries(mapped(raw.panels, panelOf)).slice(-MOST_PANELS);
  return { sections: sections.slice(0, MOST_PANELS), panels: Object.fromEntries(panels), removed: texts(raw.removed) };
}

function panelOf(raw) {
  const lines = texts(raw?.lines).map(textOf).slice(0, MOST_LINES);
  return lines.length ? { title: textOf(raw.title), lines, x: textOf(raw.x) } : null;
}

const textOf = (raw) => (typeof raw === "string" ? raw.slice(0, LONGEST) : "");

function overridesOf(raw) {
  if (!raw || typeof raw !== "object") return null;
  const own = {};
  for (const name of ["isLogX", "isLogY", "ignoreOutliers"]) if (typeof raw[name] === "boolean") own[name] = raw[name];
  const { columns, height } = raw.size ?? {};
  if ([1, 2, 3, 4].includes(columns))
    own.size = { columns, ...(height >= 100 && height <= 2000 && { height: Math.round(height) }) };
  return Object.keys(own).length ? own : null;
}

function mapped(raw, read) {
  const entries = raw && typeof raw === "object" && !Array.isArray(raw) ? Object.entries(raw) : [];
  const found = entries.map(([name, value]) => [name, read(value)]).filter(([, value]) => value !== null);
  return Object.fromEntries(found.slice(-MOST));
}

function texts(raw) {
  return Array.isArray(raw) ? [...new Set(raw.filter((text) => typeof text === "string" && text))].slice(-MOST) : [];
}
