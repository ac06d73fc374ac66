// The whole log in a strip beside the scroll bar: where errors, warnings and hits are, and which part is in view.
import { colour, faded } from "../../shared/colours.js";

export class LogMap {
  // onPick(share): a place from 0 to 1 was clicked
  constructor(canvas, onPick) {
    this.canvas = canvas;
    this.marks = [];
    this.hits = [];
    this.total = 0;
    this.view = [0, 0];
    this.redraw = () => this.draw();
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      onPick(this.share(event));
    });
    canvas.addEventListener("pointermove", (event) => event.buttons && onPick(this.share(event)));
    addEventListener("themechange", this.redraw);
    this.sizes = new ResizeObserver(this.redraw);
    this.sizes.observe(canvas);
  }
  share(event) {
    const box = this.canvas.getBoundingClientRect();
    return Math.max(0, Math.min(1, (event.clientY - box.top) / box.height));
  }
  show(marks, total) {
    this.marks = marks;
    this.total = total;
    this.draw();
  }
  // The lines that the search found so far: [{index}].
  find(hits) {
    if (!hits.length && !this.hits.length) return;
    this.hits = hits;
    this.frame ||= requestAnimationFrame(() => this.draw());
  }
  // The lines in view, as shares of all.
  look(from, to) {
    if (this.view[0] === from && this.view[1] === to) return;
    this.view = [from, to];
    this.frame ||= requestAnimationFrame(() => this.draw());
  }
  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const { canvas } = this;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    const ratio = devicePixelRatio;
    Object.assign(canvas, { width: width * ratio, height: height * ratio });
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const [from, to] = this.view;
    pen.fillStyle = faded(colour("faint"), 0.22);
    pen.fillRect(0, from * height, width, Math.max(6, (to - from) * height));
    for (const [index, numErrors, numWarnings] of this.marks) {
      if (!numErrors && !numWarnings) continue;
      pen.fillStyle = colour(numErrors ? "red" : "amber");
      const [left, wide, high] = numErrors ? [1, width - 2, 3] : [width / 2, width / 2 - 1, 2];
      pen.fillRect(left, Math.min(height - 3, (index / this.total) * height), wide, high);
    }
    this.drawHits(pen, width, height);
  }
  drawHits(pen, width, height) {
    pen.fillStyle = colour("accent");
    let last = -1;
    for (const { index } of this.hits) {
      const y = Math.round((index / this.total) * height);
      if (y !== last) pen.fillRect(0, Math.min(height - 1, y), width, 1);
      last = y;
    }
  }
  close() {
    removeEventListener("themechange", this.redraw);
    this.sizes.disconnect();
    cancelAnimationFrame(this.frame);
  }
}
