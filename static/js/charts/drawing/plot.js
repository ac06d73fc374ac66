// One plot: what of a chart is in view, and when it is drawn. The frame has the axes; what is between them is drawn by
// lines.js and marks.js.
import { seriesColour } from "../../shared/colours.js";
import { reachOf, yRangeOf } from "../scales/ranges.js";
import { nearestPlace } from "../scales/views.js";
import { Frame } from "./frame.js";
import { drawLines } from "./lines.js";
import { drawBad, drawMarks } from "./marks.js";

/**
 * @typedef {object} PlotLook
 * @property {Axis} axis
 * @property {boolean} isLogX
 * @property {boolean} isLogY
 * @property {Span | null} view
 * @property {(key: string) => number} colourOf
 */
const SIZE = [320, 196]; // of a place that has none yet

export class Plot {
  // format(value) -> text; onPlace(): called when the scales or the size changed.
  /** @param {HTMLElement} host @param {{format: (value: number) => string, onPlace: () => void}} options */
  constructor(host, { format, onPlace }) {
    this.host = host;
    this.format = format;
    this.onPlace = onPlace;
    this.shape = "";
    /** @type {BuiltChart | null} */
    this.built = null;
    /** @type {PlotLook | null} */
    this.look = null;
    /** @type {((key: string) => boolean) | null} */
    this.lit = null; // which lines are lit: (key) -> whether, or null
    /** @type {Frame | null} */
    this.frame = null; // from the first drawing on
    /** @type {((over: HTMLElement) => void) | null} */
    this.onMake = null;
    /** @type {Span | undefined} */
    this.extent = undefined;
    this.onTheme = () => this.reshape();
    this.onDensity = () => this.resize();
    this.resizer = new ResizeObserver(() => this.resize());
    this.resizer.observe(host);
    addEventListener("themechange", this.onTheme);
    addEventListener("resize", this.onDensity);
  }

  // look: {axis, isLogX, isLogY, view: [from, to] or null, colourOf(key) -> index}
  /** @param {BuiltChart} built @param {PlotLook} look */
  draw(built, look) {
    this.built = built;
    this.look = look;
    this.extent = reachOf(built, look.view, this.shape === shapeOf(look) ? this.extent : null, look.isLogX);
    if (!this.frame) this.#make();
    if (this.shape !== shapeOf(look)) this.reshape();
    else this.paint();
  }

  #make() {
    this.frame = new Frame(this.host);
    this.frame.resize(this.host.clientWidth || SIZE[0], this.host.clientHeight || SIZE[1]);
    this.onMake?.(this.frame.over);
    // Drawing in the same frame may change the place and change it back, which no observer sees.
    requestAnimationFrame(() => this.resize());
  }

  // The axes are others, or their colours.
  reshape() {
    if (!this.frame) return;
    const { frame, look } = this.#drawn;
    this.shape = shapeOf(look);
    frame.shape({ ...look, format: this.format });
    this.paint();
  }

  // Another stretch in view, without anything being built: what a gesture does many times a second.
  /** @param {Span | null} view */
  setView(view) {
    this.#drawn.look.view = view;
    this.paint();
  }

  paint() {
    if (!this.frame) return;
    const { frame, built, look } = this.#drawn;
    frame.begin(this.range, yRangeOf(built, this.range, look.isLogY));
    drawMarks(frame, built.marks);
    drawLines(frame, built, {
      colourOf: (key) => seriesColour(look.colourOf(key)),
      isLit: (key) => (this.lit ? this.lit(key) : null),
    });
    drawBad(frame, built.bad);
    this.onPlace();
  }

  /** As it is, on another canvas of the same size. @param {CanvasRenderingContext2D} ctx */
  paintOn(ctx) {
    const { frame } = this.#drawn;
    const own = frame.ctx;
    frame.ctx = ctx;
    this.paint();
    frame.ctx = own;
  }

  /** @param {((key: string) => boolean) | null} isLit */
  light(isLit) {
    if (!isLit && !this.lit) return;
    this.lit = isLit;
    this.paint();
  }

  resize() {
    const { frame, host } = this;
    const { clientWidth: width, clientHeight: height } = host;
    if (!frame || !width || !height) return;
    if (width === frame.width && height === frame.height && devicePixelRatio === frame.ratio) return;
    frame.resize(width, height);
    this.paint();
  }

  get #drawn() {
    const { frame, built, look } = this;
    if (!frame || !built || !look) throw new Error("this plot was never drawn");
    return { frame, built, look };
  }

  get width() {
    return this.frame ? this.frame.bbox.width / this.frame.ratio : this.host.clientWidth || SIZE[0];
  }

  get height() {
    const { bbox, ratio } = this.#drawn.frame;
    return bbox.height / ratio;
  }

  // The stretch of x that is shown.
  get range() {
    return this.#drawn.look.view ?? this.extent ?? [0, 1];
  }

  /** In pixels of the page, from the upper left end of what is between the axes. @param {number} left */
  toValue(left) {
    return this.#drawn.frame.x.valueAt(left / this.width);
  }

  /** @param {number} x */
  toLeft(x) {
    return this.#drawn.frame.x.shareOf(x) * this.width;
  }

  /** @param {number} y */
  toTop(y) {
    return (1 - this.#drawn.frame.y.shareOf(y)) * this.height;
  }

  close() {
    this.resizer.disconnect();
    removeEventListener("themechange", this.onTheme);
    removeEventListener("resize", this.onDensity);
    this.frame?.element.remove();
    this.frame = null;
  }

  /** The place in x that is nearest to a value of it. @param {number} x */
  placeOf(x) {
    return nearestPlace(this.#drawn.built.x, x);
  }
}

/** @param {PlotLook} look */
const shapeOf = ({ axis, isLogX, isLogY }) => `${axis} ${isLogX} ${isLogY}`;
