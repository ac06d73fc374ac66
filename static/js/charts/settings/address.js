// Pure: a person's view of charts in the page's address. An address with any part of the view has all of it: what it
// leaves out is the default, whatever its reader kept. Therefore the axis is always in it.
import { DEFAULTS } from "./state.js";

// Options of one chart; "-logy" where the page's option is on.
const FLAGS = { logx: "isLogX", logy: "isLogY", outliers: "ignoreOutliers" };
const ONCE = ["x", "smooth", ...Object.keys(FLAGS), "ranks", "order", "metrics", "lists", "open", "group", "band"];
const OURS = [...ONCE, "pin", "fold", "chart", "hide", "zoom"]; // these as often as it takes
const LONGEST = 6000; // characters of an address that servers and mail programs still take

// The view in an address: {patch of the state, zoom: {axis: range}, open: name | null}; isView: whether it has any;
// hasLists: whether pins, folds, hidden runs and single charts are in it, too.
export function readQuery(search) {
  const query = new URLSearchParams(search);
  const patch = {};
  const take = (name, into, read) => query.has(name) && (patch[into] = read(query.get(name)));
  take("x", "axis", (text) => text);
  take("smooth", "smoothing", (text) => ({ kind: text.split(":")[0], amount: Number(text.split(":")[1] ?? 0.6) }));
  take("logx", "isLogX", isYes);
  take("logy", "isLogY", isYes);
  take("outliers", "ignoreOutliers", isYes);
  take("ranks", "ranks", (text) => text);
  take("order", "sort", (text) => ({ by: text.replace(/^-/, ""), isDescending: text.startsWith("-") }));
  take("metrics", "filter", (text) => text); // "filter" is that of runs
  take("pin", "pinned", () => query.getAll("pin"));
  take("group", "group", (by) => ({ by, band: query.get("band") }));
  take("hide", "hidden", () => query.getAll("hide"));
  take("fold", "collapsed", () => query.getAll("fold"));
  take("chart", "charts", () => Object.fromEntries(query.getAll("chart").map(chartOf)));
  // The site's own links have "hide=", for what an earlier comparison hid; the rest of the view is as one kept it.
  const isView = OURS.some((name) => (name === "hide" ? query.getAll(name).some(Boolean) : query.has(name)));
  return { patch, zoom: zooms(query.getAll("zoom")), open: query.get("open"), isView, hasLists: !query.has("lists") };
}

// The address' query with this view in it; what others wrote there stays.
export function writeQuery(search, state, { zoom = {}, open = null } = {}) {
  const query = new URLSearchParams(search);
  OURS.forEach((name) => query.delete(name));
  const { smoothing, sort, group } = state;
  const put = (name, value, isSaid = true) => isSaid && query.append(name, value);
  put("x", state.axis);
  put("smooth", `${smoothing.kind}:${smoothing.amount}`, smoothing.kind !== "none");
  put("logx", 1, state.isLogX);
  put("logy", 1, state.isLogY);
  put("outliers", 1, state.ignoreOutliers);
  put("ranks", state.ranks, state.ranks !== DEFAULTS.ranks);
  put("order", `${sort.isDescending ? "-" : ""}${sort.by}`, sort.by !== "name" || sort.isDescending);
  put("metrics", state.filter, state.filter !== "");
  put("group", group?.by, group !== null);
  put("band", group?.band, group !== null && group.band !== "minmax");
  put("open", open, open !== null);
  for (const [one, range] of Object.entries(zoom)) put("zoom", `${one}:${range[0]}-${range[1]}`, Boolean(range));
  const { pinned: pin, hidden: hide, collapsed: fold, charts } = state;
  const listed = { pin, hide, fold, chart: Object.entries(charts).map(textOf) };
  const lists = new URLSearchParams(Object.entries(listed).flatMap(([name, all]) => all.map((one) => [name, one])));
  const text = [query, lists].map(String).filter(Boolean).join("&");
  if (text.length <= LONGEST) return `?${text}`;
  query.append("lists", "kept"); // on the server: who opens this has their own
  return `?${query}`;
}

// One chart's options as text, "logy,-outliers,size=2x320:train/loss", and back.
function textOf([name, own]) {
  const flags = Object.entries(FLAGS)
    .filter(([, key]) => key in own)
    .map(([flag, key]) => (own[key] ? flag : `-${flag}`));
  const { columns, height } = own.size ?? {};
  if (columns) flags.push(`size=${columns}${height ? `x${height}` : ""}`);
  return `${flags.join(",")}:${name}`;
}

function chartOf(text) {
  const at = text.indexOf(":");
  const own = {};
  for (const flag of text.slice(0, Math.max(0, at)).split(",")) {
    const [, columns, height] = /^size=(\d)(?:x(\d+))?$/.exec(flag) ?? [];
    if (columns) own.size = { columns: Number(columns), height: Number(height) };
    else if (FLAGS[flag.replace(/^-/, "")]) own[FLAGS[flag.replace(/^-/, "")]] = !flag.startsWith("-");
  }
  return [text.slice(at + 1), own];
}

function zooms(all) {
  const found = {};
  for (const text of all) {
    const [, axis, from, to] =
      /^(step|relative|time):(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)-(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)$/.exec(text) ?? [];
    if (axis && Number(from) < Number(to)) found[axis] = [Number(from), Number(to)];
  }
  return found;
}

const isYes = (text) => text === "1" || text === "true";
