// The rows that are drawn of a list: made, kept while they are in view, measured and put where they belong.
import { ROW } from "./scale.js";

export class Rows {
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
