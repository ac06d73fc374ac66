// A list of any length in a box: draws the rows in view, over a filler as high as a browser allows. Where it stands is
// `top`, a line and the share of it that is above the box; the scroll bar follows.
import { ROW, aimed, barOf, moved, scaleOf } from "./scale.js";

const PATIENCE_MS = 80; // rows that were read stay this long while those to come are fetched; then faint rows stand for them
const REST_MS = 140;

export class Scroller {
  // source: {total, get(index), want(from, to)}; rowOf(index) -> element; onDraw() after each drawing
  constructor(view, { source, rowOf, onDraw, onScroll }) {
    Object.assign(this, { view, source, rowOf, onDraw, onScroll });
    [this.filler, this.layer, this.rows] = [".log-filler", ".log-layer", ".log-rows"].map((name) => view.querySelector(name));
    this.top = 0;
    this.isWrapped = false;
    this.drawn = new Map(); // index -> {row, line}
    this.average = ROW;
    this.bar = 0;
    this.missing = 0;
    this.width = 0;
    this.handle = () => this.onBar();
    view.addEventListener("scroll", this.handle, { passive: true });
    this.sizes = new ResizeObserver(() => this.draw());
    this.sizes.observe(view);
  }
  get scale() {
    return scaleOf(this.source.total, this.view.clientHeight, this.isWrapped ? this.average : ROW);
  }
  get isAtEnd() {
    return this.isWrapped ? this.isEnd : this.top >= this.scale.last - 1;
  }
  get inView() {
    return Math.max(1, Math.floor(this.view.clientHeight / ROW));
  }
  show(source, top = 0) {
    this.source = source;
    this.forget();
    this.moveTo(top);
  }
  // Rows are made anew: how they look has changed.
  forget() {
    this.drawn.clear();
    this.rows.replaceChildren();
    this.width = 0;
    this.average = ROW;
  }
  wrap(isWrapped) {
    this.isWrapped = isWrapped;
    this.view.classList.toggle("is-wrapped", isWrapped);
    this.forget();
    this.draw();
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
    const box = this.drawn.get(index)?.row.getBoundingClientRect();
    if (!this.isWrapped || !box) return;
    const room = this.view.getBoundingClientRect();
    if (box.bottom > room.bottom) this.moveBy(Math.min(box.bottom - room.bottom, box.top - room.top));
  }
  // Pixels, by the rows' real heights.
  moveBy(px) {
    let index = Math.floor(this.top);
    let offset = (this.top - index) * this.heightOf(index) + px;
    while (offset < 0 && index > 0) offset += this.heightOf((index -= 1));
    while (index < this.source.total - 1 && offset >= this.heightOf(index)) offset -= this.heightOf(index++);
    this.moveTo(Math.max(0, index + offset / this.heightOf(index)));
  }
  heightOf(index) {
    return this.isWrapped ? this.drawn.get(index)?.row.offsetHeight || this.average : ROW;
  }
  onBar() {
    const to = this.view.scrollTop;
    if (Math.abs(to - this.bar) < 1) return; // our own doing, or sideways
    const move = moved(this.bar, to, this.scale);
    this.bar = to;
    this.isHeld = true; // the bar is not moved under the hand
    clearTimeout(this.rest);
    this.rest = setTimeout(() => ((this.isHeld = false), this.settle()), REST_MS);
    if (move.px === undefined) this.moveTo(move.top);
    else this.moveBy(move.px);
    this.onScroll();
  }
  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const { scale } = this;
    if (!scale.view) return;
    this.top = Math.max(0, Math.min(this.isWrapped ? scale.total - 1 : scale.last, this.top));
    const first = Math.floor(this.top);
    const margin = this.isWrapped ? this.inView + 2 : 0; // rows above the box are measured, so that one can move up
    const [from, to] = [Math.max(0, first - margin), Math.min(scale.total, first + this.inView + 2)];
    this.source.want(from, to);
    if (!this.isWaiting(first, to)) this.paint(from, to);
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
    if (isWhole || !this.drawn.size) {
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
  paint(from, to, top = this.top) {
    for (const [index, { row }] of this.drawn) {
      if (index >= from && index < to) continue;
      row.remove();
      this.drawn.delete(index);
    }
    let before = this.rows.firstElementChild;
    for (let index = from; index < to; index += 1) {
      const line = this.source.get(index);
      const known = this.drawn.get(index);
      if (known?.line === line && known) {
        before = known.row.nextElementSibling;
        continue;
      }
      const row = this.rowOf(index);
      if (known) known.row.replaceWith(row);
      else this.rows.insertBefore(row, before);
      if (known) before = row.nextElementSibling;
      this.drawn.set(index, { row, line });
    }
    this.place(from, top);
    this.onDraw();
  }
  place(from, top) {
    this.layer.style.height = `${this.view.clientHeight}px`;
    if (this.isWrapped) this.measure();
    else this.widen();
    let above = 0;
    for (let index = from; index < Math.floor(top); index += 1) above += this.heightOf(index);
    above += (top % 1) * this.heightOf(Math.floor(top));
    // The last line ends where the box ends.
    const most = Math.max(0, this.rows.offsetHeight - this.view.clientHeight);
    this.isEnd = this.drawn.has(this.source.total - 1) && above >= most - 1;
    if (this.isEnd && top === this.top) above = this.endAt(from, most);
    this.rows.style.transform = `translateY(${-above}px)`;
  }
  endAt(from, above) {
    let [index, offset] = [from, above];
    while (offset >= this.heightOf(index) && index < this.source.total - 1) offset -= this.heightOf(index++);
    if (this.isWrapped) this.top = index + offset / this.heightOf(index);
    return above;
  }
  measure() {
    if (this.drawn.size) this.average = Math.max(ROW, 0.8 * this.average + (0.2 * this.rows.offsetHeight) / this.drawn.size);
  }
  // Rows reach as far as the widest that was seen, so that moving down does not move the text sideways.
  widen() {
    const { scrollWidth } = this.rows;
    if (scrollWidth > this.width) this.rows.style.minWidth = `${(this.width = scrollWidth)}px`;
  }
  settle() {
    const { scale } = this;
    this.filler.style.height = `${scale.height}px`;
    if (this.isHeld) return;
    const wanted = this.isWrapped && this.isEnd ? scale.most : barOf(this.top, scale);
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
