// One plot: what of a chart is in view, and when it is drawn. The frame has the axes; what is between them is drawn by
// lines.js and marks.js.
import { seriesColour } from "../../shared/colours.js";
import { reachOf, yRangeOf } from "../scales/ranges.js";
import { nearestPlace } from "../scales/views.js";
import { Frame } from "./frame.js";
import { drawLines } from "./lines.js";
import { drawBad, drawMarks } from "./marks.js";

const SIZE = [320, 196]; // of a place that has none yet

export class Plot {
  // format(value) -> text; onPlace(): called when the scales or the size changed.
  constructor(host, { format, onPlace }) {
    this.host = host;
    this.format = format;
    this.onPlace = onPlace;
    this.shape = "";
    this.built = null;
    this.look = null;
    this.lit = null; // which lines are lit: (key) -> whether, or null
    this.frame = null; // from the first drawing on
    this.onTheme = () => this.reshape();
    this.onDensity = () => this.resize();
    this.resizer = new ResizeObserver(() => this.resize());
    this.resizer.observe(host);
    addEventListener("themechange", this.onTheme);
    addEventListener("resize", this.onDensity);
  }

  // look: {axis, isLogX, isLogY, view: [from, to] or null, colourOf(key) -> index}
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
    // What is drawn in the same frame may change the place and change it back, which no observer is told of.
    requestAnimationFrame(() => this.resize());
  }

  // The axes are others, or their colours.
  reshape() {
    if (!this.frame) return;
    this.shape = shapeOf(this.look);
    this.frame.shape({ ...this.look, format: this.format });
    this.paint();
  }

  // Another stretch in view, without anything being built: what a gesture does many times a second.
  setView(view) {
    this.look.view = view;
    this.paint();
  }

  paint() {
    const { frame, built, look } = this;
    if (!frame) return;
    frame.begin(this.range, yRangeOf(built, this.range, look.isLogY));
    drawMarks(frame, built.marks);
    drawLines(frame, built, {
      colourOf: (key) => seriesColour(look.colourOf(key)),
      isLit: (key) => (this.lit ? this.lit(key) : null),
    });
    drawBad(frame, built.bad);
    this.onPlace();
  }

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

  get width() {
    return this.frame ? this.frame.bbox.width / this.frame.ratio : this.host.clientWidth || SIZE[0];
  }

  get height() {
    return this.frame.bbox.height / this.frame.ratio;
  }

  // The stretch of x that is shown.
  get range() {
    return this.look.view ?? this.extent;
  }

  // In pixels of the page, from the upper left end of what is between the axes.
  toValue(left) {
    return this.frame.x.valueAt(left / this.width);
  }

  toLeft(x) {
    return this.frame.x.shareOf(x) * this.width;
  }

  toTop(y) {
    return (1 - this.frame.y.shareOf(y)) * this.height;
  }

  close() {
    this.resizer.disconnect();
    removeEventListener("themechange", this.onTheme);
    removeEventListener("resize", this.onDensity);
    this.frame?.element.remove();
    this.frame = null;
  }

  // The place in x that is nearest to a value of it.
  placeOf(x) {
    return nearestPlace(this.built.x, x);
  }
}

function shapeOf({ axis, isLogX, isLogY }) {
  return `${axis} ${isLogX} ${isLogY}`;
}
