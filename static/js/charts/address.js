// Pure: how a person looks at charts, as the page's address says it. What is as at the start is left out.
import { DEFAULTS } from "./state.js";

const OURS = ["x", "smooth", "logx", "logy", "outliers", "ranks", "order", "filter", "pin", "zoom", "open", "group", "band", "hide"];
const LONGEST = 6000; // characters of an address that servers and mail programs still take

// What an address says: {patch of the state, zoom: {axis: range}, open: name | null}.
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
  take("filter", "filter", (text) => text);
  take("pin", "pinned", () => query.getAll("pin"));
  take("group", "group", (by) => ({ by, band: query.get("band") }));
  take("hide", "hidden", () => query.getAll("hide"));
  return { patch, zoom: zooms(query.getAll("zoom")), open: query.get("open") };
}

// The address' query with this view in it; what others wrote there stays.
export function writeQuery(search, state, { zoom = {}, open = null } = {}) {
  const query = new URLSearchParams(search);
  OURS.forEach((name) => query.delete(name));
  const { axis, smoothing, isLogX, isLogY, ignoreOutliers, ranks, sort, filter, pinned, group, hidden } = state;
  const put = (name, value, isSaid = true) => isSaid && query.append(name, value);
  put("x", axis, axis !== DEFAULTS.axis);
  put("smooth", `${smoothing.kind}:${smoothing.amount}`, smoothing.kind !== "none");
  put("logx", 1, isLogX);
  put("logy", 1, isLogY);
  put("outliers", 1, ignoreOutliers);
  put("ranks", ranks, ranks !== DEFAULTS.ranks);
  put("order", `${sort.isDescending ? "-" : ""}${sort.by}`, sort.by !== "name" || sort.isDescending);
  put("filter", filter, filter !== "");
  put("group", group?.by, group !== null);
  put("band", group?.band, group !== null && group.band !== "minmax");
  put("open", open, open !== null);
  for (const [one, range] of Object.entries(zoom)) put("zoom", `${one}:${range[0]}-${range[1]}`, Boolean(range));
  const lists = new URLSearchParams([...pinned.map((name) => ["pin", name]), ...hidden.map((id) => ["hide", id])]);
  const text = [query, lists].map(String).filter(Boolean).join("&");
  const fitting = text.length > LONGEST ? String(query) : text; // the lists are kept on the server, too
  return fitting ? `?${fitting}` : "";
}

function zooms(all) {
  const found = {};
  for (const text of all) {
    const [, axis, from, to] = /^(step|relative|time):(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)-(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)$/.exec(text) ?? [];
    if (axis && Number(from) < Number(to)) found[axis] = [Number(from), Number(to)];
  }
  return found;
}

function isYes(text) {
  return text === "1" || text === "true";
}
