// A list of any length in a box: rows in view, over a filler as high as a browser allows. Where it stands is `top`, a
// line and the share of it that is above the box; the scroll bar follows.
import { aimed, barOf, moved, ROW, scaleOf } from "./scale.js";

// Rows that were read stay this long while those to come are fetched; then faint rows stand for them.
const PATIENCE_MS = 250;
const REST_MS = 140;

export class Scroller {
  // source: {total, get(index), want(from, to)}; rowOf(index) -> element; onDraw() after each drawing; onScroll(): by
  // hand
  constructor(view, { source, rowOf, onDraw, onScroll }) {
    this.view = view;
    this.source = source;
    this.onDraw = onDraw;
    this.onScroll = onScroll;
    this.top = 0;
    this.bar = 0;
    this.missing = 0;
    this.isEnd = false;
    this.isLast = false;
    this.filler = view.querySelector(".log-filler");
    this.rows = new Rows(view, rowOf);
    this.handle = () => this.onBar();
    view.addEventListener("scroll", this.handle, { passive: true });
    this.sizes = new ResizeObserver(() => (this.isLast ? this.toEnd() : this.draw()));
    this.sizes.observe(view);
  }
  get scale() {
    return scaleOf(this.source.total, this.view.clientHeight, this.rows.isWrapped ? this.rows.average : ROW);
  }
  get isAtEnd() {
    return this.rows.isWrapped ? this.isEnd : this.top >= this.scale.last - 1;
  }
  get inView() {
    return Math.max(1, Math.floor(this.view.clientHeight / ROW));
  }
  show(source, top = 0) {
    this.source = source;
    this.rows.clear();
    this.rows.narrow();
    this.moveTo(top);
  }
  redraw() {
    this.rows.clear();
    this.draw();
  }
  wrap(isWrapped) {
    this.rows.isWrapped = isWrapped;
    this.view.classList.toggle("is-wrapped", isWrapped);
    this.rows.narrow();
    this.redraw();
  }
  moveTo(top) {
    this.isEnd = this.isEnd && top >= this.top;
    this.top = top;
    this.draw();
  }
  toEnd() {
    this.moveTo(this.source.total);
  }
  reveal(index, where = "near") {
    this.moveTo(aimed(index, this.top, this.scale, where));
    const box = this.rows.drawn.get(index)?.row.getBoundingClientRect();
    if (!this.rows.isWrapped || !box) return;
    const room = this.view.getBoundingClientRect();
    if (box.bottom > room.bottom) this.moveBy(Math.min(box.bottom - room.bottom, box.top - room.top));
  }
  // Pixels, by the rows' real heights.
  moveBy(px) {
    let index = Math.floor(this.top);
    let offset = (this.top - index) * this.rows.heightOf(index) + px;
    while (offset < 0 && index > 0) offset += this.rows.heightOf((index -= 1));
    this.moveTo(this.rows.at(index, Math.max(0, offset), this.source.total));
  }
  onBar() {
    const to = this.view.scrollTop;
    if (Math.abs(to - this.bar) < 1) return; // our own doing, or sideways
    const move = moved(this.bar, to, this.scale);
    this.bar = to;
    this.isHeld = true; // the bar is not moved under the hand
    clearTimeout(this.rest);
    this.rest = setTimeout(() => {
      this.isHeld = false;
      this.settle();
    }, REST_MS);
    if (move.px === undefined) this.moveTo(move.top);
    else this.moveBy(move.px);
    this.onScroll();
  }
  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const { scale } = this;
    if (!scale.view) return;
    this.top = Math.max(0, Math.min(this.rows.isWrapped ? scale.total - 1 : scale.last, this.top));
    const first = Math.floor(this.top);
    const margin = this.rows.isWrapped ? this.inView + 2 : 0; // rows above are measured, so that one can move up
    const [from, to] = [Math.max(0, first - margin), Math.min(scale.total, first + this.inView + 2)];
    this.source.want(from, to);
    if (!this.isWaiting(first, to)) this.top = this.paint(from, to, this.top);
    // Whether the last line is the last in view. It stays so when the box changes, as by a bar for moving sideways,
    // which comes with a long line and takes of the box's height.
    this.isLast = this.rows.isWrapped ? this.isEnd : scale.total > 0 && this.top >= scale.last;
    this.settle();
  }
  // Many changes, one drawing.
  drawSoon() {
    this.frame ||= requestAnimationFrame(() => this.draw());
  }
  isWaiting(from, to) {
    let isWhole = true;
    for (let index = from; index < to && isWhole; index += 1) isWhole = this.source.get(index) !== undefined;
    clearTimeout(this.patience);
    if (isWhole || !this.rows.drawn.size) {
      this.missing = 0;
      return false;
    }
    this.missing ||= performance.now();
    const left = this.missing + PATIENCE_MS - performance.now();
    if (left <= 0) return false;
    this.patience = setTimeout(() => this.draw(), left);
    return true;
  }
  // What came too late for where the list has gone by now is better than nothing: it is passing by.
  pass(from, to) {
    if (!this.missing) return;
    this.missing = performance.now();
    this.paint(from, Math.min(to, from + this.inView + 2), from);
  }
  // Returns where the box begins: at the end of a wrapped list only drawing shows it.
  paint(from, to, wanted) {
    this.rows.draw(this.source, from, to);
    const { isEnd, top } = this.rows.place(from, wanted, this.source.total);
    this.isEnd = isEnd;
    this.onDraw();
    return top;
  }
  settle() {
    const { scale } = this;
    this.filler.style.height = `${scale.height}px`;
    if (this.isHeld) return;
    const wanted = this.rows.isWrapped && this.isEnd ? scale.most : barOf(this.top, scale);
    if (Math.abs(this.view.scrollTop - wanted) >= 1) this.view.scrollTop = wanted;
    this.bar = this.view.scrollTop;
  }
  close() {
    this.view.removeEventListener("scroll", this.handle);
    this.sizes.disconnect();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.rest);
    clearTimeout(this.patience);
  }
}

// The rows that are drawn of a list: made, kept while they are in view, measured and put where they belong.
class Rows {
  constructor(view, rowOf) {
    this.view = view;
    this.rowOf = rowOf;
    this.isWrapped = false;
    this.layer = view.querySelector(".log-layer");
    this.rows = view.querySelector(".log-rows");
    this.drawn = new Map(); // index -> {row, line}
    this.clear();
    this.narrow();
  }
  // All are made anew: how they look has changed.
  clear() {
    this.drawn.clear();
    this.rows.replaceChildren();
    this.view.removeAttribute("aria-activedescendant"); // the row that it names is gone
    this.average = ROW;
  }
  narrow() {
    this.width = 0;
    this.rows.style.minWidth = "";
  }
  heightOf(index) {
    return this.isWrapped ? this.drawn.get(index)?.row.offsetHeight || this.average : ROW;
  }
  draw(source, from, to) {
    for (const [index, { row }] of this.drawn) {
      if (index >= from && index < to) continue;
      row.remove();
      this.drawn.delete(index);
    }
    let before = this.rows.firstElementChild;
    for (let index = from; index < to; index += 1) {
      const line = source.get(index);
      const known = this.drawn.get(index);
      if (known && known.line === line) {
        before = known.row.nextElementSibling;
        continue;
      }
      const row = this.rowOf(index);
      if (known) {
        known.row.replaceWith(row);
        before = row.nextElementSibling;
      } else this.rows.insertBefore(row, before);
      this.drawn.set(index, { row, line });
    }
  }
  // Puts line `top` (with a fraction) at the top of the box, or the end of the last line at its bottom where the list
  // ends. Returns {isEnd, top}: where the box begins then.
  place(from, top, total) {
    this.layer.style.height = `${this.view.clientHeight}px`;
    if (this.isWrapped) this.measure();
    else this.widen();
    let above = (top % 1) * this.heightOf(Math.floor(top));
    for (let index = from; index < Math.floor(top); index += 1) above += this.heightOf(index);
    const most = Math.max(0, this.rows.offsetHeight - this.view.clientHeight);
    const isEnd = this.drawn.has(total - 1) && above >= most - 1;
    if (isEnd) above = most;
    this.rows.style.transform = `translateY(${-above}px)`;
    return { isEnd, top: isEnd && this.isWrapped ? this.at(from, above, total) : top };
  }
  // The line, with a fraction, that is so many pixels below line `from`.
  at(from, px, total) {
    let [index, rest] = [from, px];
    while (index < total - 1 && rest >= this.heightOf(index)) rest -= this.heightOf(index++);
    return index + rest / this.heightOf(index);
  }
  measure() {
    if (this.drawn.size)
      this.average = Math.max(ROW, 0.8 * this.average + (0.2 * this.rows.offsetHeight) / this.drawn.size);
  }
  // Rows reach as far as the widest that was seen, so that moving down does not move the text sideways.
  widen() {
    const { scrollWidth } = this.rows;
    if (scrollWidth > this.width) this.rows.style.minWidth = `max(100%, ${(this.width = scrollWidth)}px)`;
  }
}
