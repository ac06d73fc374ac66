// The log that is open: which lines are wanted, where one stands among them, and what happens as it grows.
import { filters, sought } from "./address.js";
import { Api } from "./data/api.js";
import { Blocks } from "./data/blocks.js";
import { Hits } from "./data/hits.js";
import { Tail } from "./data/tail.js";
import { rowOf } from "./list/line.js";
import { Scroller } from "./list/scroller.js";

const MOST_COPIED = 20_000; // lines at once
const PAGE = 2000;
export const MARGIN = 20; // lines fetched beyond those in view while the log grows

export class View {
  // state: what the address says; onChange(what): something to show has changed, "lines" | "state" | "trouble"
  constructor({ lines, base, start, state, onChange }) {
    this.lines = lines;
    this.start = start;
    this.state = state;
    this.onChange = onChange;
    this.isFollowing = !state.line;
    this.isInPlace = Boolean(state.line);
    this.numNew = 0;
    this.going = 0;
    this.whole = new Map();
    const chosen = () => filters(this.state);
    this.api = new Api(base, chosen, () => onChange("trouble"));
    this.blocks = new Blocks(this.api, (from, to) => this.onLines(from, to));
    this.hits = new Hits(this.api, () => this.onHits());
    this.selection = new Selection(() => this.mark());
    this.tail = new Tail({
      api: this.api,
      range: () => this.range(),
      isFollowing: () => this.isFollowing && !this.isSearching,
      onPage: (page) => this.onPage(page),
    });
    this.scroller = new Scroller(lines, {
      source: this.blocks,
      rowOf: (index) => this.rowOf(index),
      onDraw: () => this.onDraw(),
      onScroll: () => this.settleFollow(),
    });
    this.blocks.isFollowing = this.isFollowing;
  }
  get source() {
    return this.scroller.source;
  }
  get isSearching() {
    return this.source === this.hits;
  }
  // Lines are wanted anew: the filters or the words are others. One stays near the time one was at.
  async load() {
    const { state } = this;
    this.going += 1;
    const at = this.isFollowing || this.isSearching ? undefined : this.source.get(Math.floor(this.scroller.top))?.time;
    this.blocks.clear();
    this.hits.clear();
    this.selection.clear();
    this.numNew = 0;
    const isSearch = state.q !== "" && !this.isInPlace;
    this.scroller.show(isSearch ? this.hits : this.blocks);
    if (state.q) this.hits.search(sought(state));
    this.onChange("state");
    const place = at === undefined || isSearch ? null : await this.api.get("/locate", { time: at }, { missing: null });
    const start = place ? Math.max(0, place.index - MARGIN) : undefined;
    await this.tail.fetch(place ? { start, limit: this.scroller.inView + 2 * MARGIN } : this.range());
    if (place) this.scroller.reveal(place.index, "top");
  }
  range() {
    const limit = this.scroller.inView + MARGIN;
    if (this.isFollowing || this.isSearching || !this.blocks.isKnown) return { start: -limit, limit };
    return { start: Math.max(0, Math.floor(this.scroller.top) - 2), limit };
  }
  onPage(page) {
    const grown = this.blocks.isKnown ? page.total - this.blocks.total : 0;
    this.blocks.take(page);
    if (grown <= 0) return;
    if (!this.isFollowing) this.numNew += grown;
    if (this.state.q && this.hits.isOver) this.hits.go();
    this.onChange("grown");
  }
  onLines(from, to) {
    this.selection.follow(this.blocks);
    if (!this.isSearching) {
      if (this.isFollowing) this.scroller.top = this.blocks.total;
      else this.hold();
      this.scroller.pass(from, to);
      this.scroller.drawSoon();
    }
    this.onChange("lines");
  }
  // Lines that came late stand above: what is read stays where it is.
  hold() {
    const { seen } = this;
    const index = seen ? this.blocks.indexOf(seen.id) : -1;
    if (index < 0 || index === seen.index) return;
    this.scroller.top += index - seen.index;
    seen.index = index;
  }
  onHits() {
    if (!this.isSearching) this.scroller.rows.clear(); // hits are marked where they stand
    this.scroller.drawSoon();
    this.onChange("hits");
  }
  onDraw() {
    const index = Math.min(Math.ceil(this.scroller.top), this.source.total - 1);
    const line = this.isSearching ? null : this.source.get(index);
    if (line) this.seen = { id: line.id, index };
    this.mark();
    this.onChange("drawn");
  }
  rowOf(index) {
    const known = this.source.get(index);
    const line = this.whole.get(known?.id) ?? known;
    const { q, clock } = this.state;
    return rowOf({ line, index, spans: q ? this.hits.spans.get(line?.id) : undefined, clock, start: this.start });
  }
  mark() {
    if (!this.scroller) return;
    const { active } = this.selection;
    for (const [index, { row }] of this.scroller.rows.drawn) {
      row.classList.toggle("is-active", index === active?.index);
      row.setAttribute("aria-selected", this.selection.has(index));
    }
    const row = active && this.scroller.rows.drawn.get(active.index)?.row;
    if (row) this.lines.setAttribute("aria-activedescendant", row.id);
    else this.lines.removeAttribute("aria-activedescendant");
  }
  choose(index, { isMore = false, where = "near" } = {}) {
    const to = Math.max(0, Math.min(this.source.total - 1, index));
    if (to < 0 || !this.source.total) return;
    this.scroller.reveal(to, where);
    this.selection.choose(to, this.source.get(to)?.id ?? "", isMore);
    this.settleFollow();
    this.onChange("chosen");
  }
  // After a move: at the end one follows, elsewhere one reads.
  settleFollow() {
    if (this.isSearching) return;
    const { isAtEnd } = this.scroller;
    if (isAtEnd !== this.isFollowing) this.follow(isAtEnd, false);
  }
  follow(isFollowing, isMoving = true) {
    this.isFollowing = this.blocks.isFollowing = isFollowing;
    if (isFollowing) this.numNew = 0;
    if (isFollowing && isMoving && !this.isSearching) {
      this.scroller.toEnd();
      this.tail.fetch();
    }
    this.onChange("state");
  }
  close() {
    for (const part of [this.tail, this.scroller]) part.close();
    for (const part of [this.blocks, this.hits]) part.clear();
  }
}

// The line that one is at, and the lines up to it that one has chosen. Kept by id: lines that come late move the
// others.
class Selection {
  constructor(onChange) {
    this.onChange = onChange;
    this.clear();
  }
  clear() {
    this.active = this.anchor = null; // {index, id}
    this.onChange();
  }
  get index() {
    return this.active?.index ?? -1;
  }
  get range() {
    if (!this.active) return [0, -1];
    return [this.active.index, this.anchor.index].sort((one, other) => one - other);
  }
  has(index) {
    const [from, to] = this.range;
    return index >= from && index <= to;
  }
  choose(index, id, extends_ = false) {
    this.active = { index, id };
    if (!extends_ || !this.anchor) this.anchor = this.active;
    this.onChange();
  }
  // Lines have moved: the same ones stay chosen.
  follow(source) {
    for (const end of new Set([this.active, this.anchor])) {
      const index = end?.id ? source.indexOf(end.id) : -1;
      if (index >= 0) end.index = index;
    }
  }
  // The lines that are chosen: those that are here, else fetched; null where they did not come.
  async lines(source, api) {
    const [from, last] = this.range;
    const to = Math.min(last, from + MOST_COPIED - 1);
    const found = [];
    for (let index = from; index <= to; index += 1) {
      const line = source.get(index);
      if (line) {
        found.push(line);
        continue;
      }
      const page = await api.get("/window", { start: index, limit: Math.min(PAGE, to - index + 1) });
      if (!page?.items.length) return null;
      found.push(...page.items);
      index += page.items.length - 1;
    }
    return found;
  }
}
