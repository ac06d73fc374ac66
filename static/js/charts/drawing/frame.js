// The frame of a plot: its canvas, where its two scales lie on it, and the axes with their grid. What the mouse does is
// listened to on `over`, which lies over what is between the axes.
import { make } from "../../shared/dom.js";
import { axesOf } from "../scales/axes.js";
import { Scale } from "../scales/scale.js";

const [TOP, RIGHT, BOTTOM] = [10, 20, 26]; // pixels around what is between the axes; on the left are the labels of y
const [TICK, GAP] = [4, 4]; // pixels: how long a tick is, and how far its label is from it
const FONT = "11px Inter Variable, sans-serif";

export class Frame {
  /** @param {HTMLElement} host */
  constructor(host) {
    this.canvas = make("canvas");
    this.over = make("div", { className: "chart-over" });
    this.element = make("div", { className: "chart-frame" }, this.canvas, this.over);
    this.ctx = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    this.x = new Scale(false);
    this.y = new Scale(false);
    this.axes = axesOf({ axis: "step", isLogX: false, isLogY: false, format: String });
    this.width = 0;
    this.height = 0;
    this.ratio = 1;
    /** @type {Box} */
    this.bbox = { left: 0, top: 0, width: 0, height: 0 }; // what is between the axes, in pixels of the canvas
    host.append(this.element);
  }

  /** look: {axis, isLogX, isLogY, format} @param {import("../scales/axes.js").AxesLook} look */
  shape(look) {
    this.axes = axesOf(look);
    this.x = new Scale(look.isLogX);
    this.y = new Scale(look.isLogY);
  }

  /** In pixels of the page. @param {number} width @param {number} height */
  resize(width, height) {
    [this.width, this.height, this.ratio] = [width, height, devicePixelRatio];
    this.canvas.width = Math.round(width * this.ratio);
    this.canvas.height = Math.round(height * this.ratio);
  }

  /** The canvas is emptied and both axes are drawn for these ranges. @param {Span} rangeX @param {Span} rangeY */
  begin(rangeX, rangeY) {
    const { axes, ratio, ctx } = this;
    this.x.set(...rangeX);
    this.y.set(...rangeY);
    const height = Math.max(1, this.height - TOP - BOTTOM);
    const rows = axes.y.ticks(this.y.min, this.y.max, height);
    const left = Math.ceil(axes.y.width(rows));
    const width = Math.max(1, this.width - left - RIGHT);
    const columns = axes.x.ticks(this.x.min, this.x.max, width);
    this.bbox = { left: left * ratio, top: TOP * ratio, width: width * ratio, height: height * ratio };
    Object.assign(this.over.style, { left: `${left}px`, top: `${TOP}px`, width: `${width}px`, height: `${height}px` });
    ctx.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.#drawAxes(columns, rows);
  }

  /** @param {import("../scales/axes.js").Tick[]} columns @param {import("../scales/axes.js").Tick[]} rows */
  #drawAxes(columns, rows) {
    const { axes, ctx, bbox, ratio } = this;
    const bottom = bbox.top + bbox.height;
    const lefts = columns.map(({ at }) => Math.round(this.leftOf(at)));
    const tops = rows.map(({ at }) => Math.round(this.topOf(at)));
    ctx.save();
    this.#strokes(axes.grid, [
      ...lefts.map((left) => [left, bbox.top, left, bottom]),
      ...tops.map((top) => [bbox.left, top, bbox.left + bbox.width, top]),
    ]);
    this.#strokes(axes.tick, [
      ...lefts.map((left) => [left, bottom, left, bottom + TICK * ratio]),
      ...tops.map((top) => [bbox.left - TICK * ratio, top, bbox.left, top]),
    ]);
    ctx.font = FONT.replace("11", String(11 * ratio));
    ctx.fillStyle = axes.text;
    [ctx.textAlign, ctx.textBaseline] = ["center", "top"];
    const [below, beside] = [bottom + (TICK + GAP) * ratio, bbox.left - (TICK + GAP) * ratio];
    columns.forEach(({ label }, which) => ctx.fillText(label, lefts[which], below));
    [ctx.textAlign, ctx.textBaseline] = ["right", "middle"];
    rows.forEach(({ label }, which) => ctx.fillText(label, beside, tops[which]));
    ctx.restore();
  }

  /** In the middle of a pixel a stroke is sharp. @param {string} paint @param {number[][]} lines */
  #strokes(paint, lines) {
    const { ctx, ratio } = this;
    const width = Math.round(ratio);
    const aside = (width % 2) / 2;
    ctx.strokeStyle = paint;
    ctx.lineWidth = width;
    ctx.beginPath();
    for (const [left, top, right, bottom] of lines) {
      ctx.moveTo(left + aside, top + aside);
      ctx.lineTo(right + aside, bottom + aside);
    }
    ctx.stroke();
  }

  /** In pixels of the canvas. @param {number} x */
  leftOf(x) {
    return this.bbox.left + this.x.shareOf(x) * this.bbox.width;
  }

  /** @param {number} y */
  topOf(y) {
    return this.bbox.top + (1 - this.y.shareOf(y)) * this.bbox.height;
  }
}
