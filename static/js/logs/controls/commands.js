// What keys and buttons do in the log, by the names of commands.
import { toast } from "../../frame/toasts.js";
import { copyText } from "../../shared/copy.js";
import { count } from "../../shared/format.js";
import { filters } from "../address.js";
import { plain } from "../list/ansi.js";
import { MARGIN } from "../view.js";

const WHOLE = 50; // long lines that are kept whole
const SIDEWAYS = 60; // px
const CLOCKS = ["wall", "relative", "off"];

export const commands = {
  step: (view, by, isMore) => view.choose(at(view, by), { isMore }),
  page: (view, by, isMore) => view.choose(at(view, by * (view.scroller.inView - 1)), { isMore }),
  first: (view, isMore) => view.choose(0, { isMore }),
  last(view, isMore) {
    view.choose(view.source.total - 1, { isMore });
    if (!isMore) view.follow(true);
  },
  sideways: (view, by) => (view.lines.scrollLeft += by * SIDEWAYS),
  all: (view) => {
    view.selection.choose(0, view.source.get(0)?.id ?? "");
    view.selection.choose(view.source.total - 1, "", true);
  },
  async open(view) {
    const { index } = view.selection;
    if (index < 0 || (await unfold(view, index)) || !view.isSearching) return;
    await place(view, index);
  },
  back(view) {
    if (view.isInPlace && view.state.q) return backToHits(view);
    view.selection.clear();
    view.onChange("chosen");
  },
  place(view) {
    if (!view.isSearching) return backToHits(view);
    return place(view, Math.max(0, view.selection.index));
  },
  async hit(view, by) {
    const { hits, selection } = view;
    if (!hits.total) return;
    const here = selection.index;
    const isLast = view.isSearching ? here === hits.total - 1 : here >= hits.items.at(-1).index;
    if (by > 0 && isLast && !hits.isOver) return hits.want(hits.total, hits.total + 1); // there may be more
    if (view.isSearching) return view.choose((here + by + hits.total) % hits.total);
    const found =
      by > 0 ? hits.items.find((line) => line.index > here) : hits.items.findLast((line) => line.index < here);
    await goTo(view, { line: (found ?? hits.items.at(by > 0 ? 0 : -1)).id });
  },
  async error(view, by) {
    const from = view.isSearching ? -1 : here(view);
    const question =
      by > 0 ? { error: "next", from } : { error: "previous", from: from < 0 ? view.blocks.total : from };
    if ((await goTo(view, question)) || view.api.trouble) return;
    const isLeftOut = view.state.level.length && !view.state.level.includes("error");
    toast(
      isLeftOut ? "The levels that are chosen leave errors out." : `No error ${by > 0 ? "after" : "before"} this line.`,
    );
  },
  async "first-error"(view) {
    if (!(await goTo(view, { error: "next", from: -1 })) && !view.api.trouble) toast("No line of these is an error.");
  },
  follow(view) {
    if (view.isSearching) showInPlace(view, true);
    view.follow(!view.isFollowing);
  },
  wrap(view) {
    view.state.wrap = !view.state.wrap;
    view.scroller.wrap(view.state.wrap);
    view.onChange("state");
  },
  clock(view) {
    view.state.clock = CLOCKS[(CLOCKS.indexOf(view.state.clock) + 1) % CLOCKS.length];
    view.scroller.redraw();
    view.onChange("state");
  },
  async link(view) {
    const line = view.source.get(view.selection.index);
    if (!line) return toast("Choose a line first: click it, or go to it with the arrow keys.");
    view.state.line = line.id;
    view.onChange("state");
    const query = filters(view.state);
    query.set("line", line.id);
    await copyText(`${location.origin}${location.pathname}?${query}`, "Copied a link to this line.");
  },
  async copy(view) {
    const found = await view.selection.lines(view.source, view.api);
    if (!found?.length) return;
    const whole = await Promise.all(
      found.map((line) =>
        found.length <= 20 && line.length ? view.api.get("/line", { id: line.id }, { missing: line }) : line,
      ),
    );
    const text = whole.map((line) => plain((line ?? found[0]).text)).join("\n");
    await copyText(text, `Copied ${count(found.length)} ${found.length === 1 ? "line" : "lines"}.`);
  },
};

// Where a step of the arrow keys leads: from the line one is at, or else into what is in view.
function at(view, by) {
  const { index } = view.selection;
  if (index >= 0) return index + by;
  const top = Math.ceil(view.scroller.top);
  return by > 0 ? top : Math.min(view.source.total, top + view.scroller.inView) - 1;
}

// The line one is at while it is in view; else before what is in view.
function here(view) {
  const { index } = view.selection;
  if (index < 0) return -1;
  const top = Math.floor(view.scroller.top);
  return index >= top && index <= top + view.scroller.inView ? index : top - 1;
}

async function place(view, index) {
  const line = view.hits.get(index);
  if (line) await goTo(view, { line: line.id });
}

function backToHits(view) {
  view.state.line = "";
  const { id } = view.selection.active ?? {};
  showInPlace(view, false);
  const index = view.hits.indexOf(id);
  if (index >= 0) view.choose(index, { where: "middle" });
}

// What a key does in the log: the name of a command, or nothing.
const MOVES = {
  ArrowUp: ["step", -1],
  ArrowDown: ["step", 1],
  PageUp: ["page", -1],
  PageDown: ["page", 1],
  Home: ["first"],
  End: ["last"],
};
const LETTERS = {
  n: ["hit", 1],
  N: ["hit", -1],
  e: ["error", 1],
  E: ["error", -1],
  f: ["follow"],
  w: ["wrap"],
  y: ["link"],
  t: ["clock"],
};

// While the list of lines has the focus.
export function inList(event) {
  if (event.altKey) return null;
  if (event.ctrlKey || event.metaKey) return event.key === "c" ? ["copy"] : event.key === "a" ? ["all"] : null;
  if (MOVES[event.key]) return [...MOVES[event.key], event.shiftKey];
  if (event.key === "ArrowLeft" || event.key === "ArrowRight") return ["sideways", event.key === "ArrowLeft" ? -1 : 1];
  return { Enter: ["open"], " ": ["page", event.shiftKey ? -1 : 1], Escape: ["back"] }[event.key] ?? null;
}

// Anywhere on the page, while nobody types.
export function anywhere(event) {
  if (event.altKey || event.ctrlKey || event.metaKey) return null;
  return LETTERS[event.key] ?? null;
}
// The whole log, or only the lines that the search found.
function showInPlace(view, isInPlace, index = 0) {
  view.going += 1;
  view.isInPlace = isInPlace;
  const wanted = isInPlace || !view.state.q ? view.blocks : view.hits;
  if (view.source !== wanted) {
    view.selection.clear();
    view.isFollowing = view.blocks.isFollowing = false;
    view.scroller.show(wanted, isInPlace ? Math.max(0, index - view.scroller.inView / 2) : 0);
  }
  view.onChange("state");
}

// Goes to the line that the question is about ({line: id}, {error: "next", from}); resolves to whether there is one.
// A newer request of the reader is not undone.
export async function goTo(view, question) {
  let mine = (view.going += 1);
  const place = await view.api.get("/locate", question, { missing: null });
  if (mine !== view.going) return true;
  if (!place) return false;
  view.follow(false, false);
  showInPlace(view, true, place.index);
  mine = view.going;
  if (!view.blocks.get(place.index) || !view.blocks.isKnown) {
    const limit = view.scroller.inView + 2 * MARGIN;
    await view.tail.fetch({ start: Math.max(0, place.index - Math.floor(limit / 2)), limit });
  }
  if (mine !== view.going) return true;
  view.choose(place.index, { where: "middle" });
  return true;
}

export async function unfold(view, index) {
  const line = view.source.get(index);
  const whole =
    line?.length && !view.whole.has(line.id) ? await view.api.get("/line", { id: line.id }, { missing: null }) : null;
  if (!whole) return false;
  if (view.whole.size >= WHOLE) view.whole.delete(view.whole.keys().next().value);
  view.whole.set(line.id, { ...whole, length: undefined });
  view.scroller.redraw();
  return true;
}
