// One uPlot chart, for its scales, axes and place on the page; what is between the axes is drawn by lines.js and marks.js.
import uPlot from "uplot";
import { axesOf } from "../scales/axes.js";
import { seriesColour } from "../../shared/colours.js";
import { drawLines } from "./lines.js";
import { drawBad, drawMarks } from "./marks.js";
import { reachOf, yRangeOf } from "../scales/ranges.js";
import { nearestPlace } from "../scales/views.js";

// uPlot scales what it is given; the data are ours, so it is given nothing but a line that is never drawn.
const NOTHING = [[0, 1], [0, 1]];

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
    this.onTheme = () => this.repaint();
    this.resizer = new ResizeObserver(() => this.resize());
    this.resizer.observe(host);
    addEventListener("themechange", this.onTheme);
  }

  // look: {axis, isLogX, isLogY, view: [from, to] or null, colourOf(key) -> index}
  draw(built, look) {
    this.built = built;
    this.look = look;
    this.extent = reachOf(built, look.view, this.shape === shapeOf(look) ? this.extent : null, look.isLogX);
    if (this.shape !== shapeOf(look)) this.make();
    else this.refresh();
  }

  make() {
    const isFocused = this.host.contains(document.activeElement);
    this.u?.destroy();
    this.shape = shapeOf(this.look);
    this.u = new uPlot(this.uplotOptions(), NOTHING, this.host);
    this.onMake?.(this.u);
    // What is drawn in the same frame may change the place and change it back, which no observer is told of.
    requestAnimationFrame(() => this.resize());
    if (isFocused) this.host.focus();
  }

  // Another stretch in view, without anything being built: what a gesture does many times a second.
  setView(view) {
    this.look.view = view;
    this.refresh();
  }

  // uPlot asks for both ranges when its x is set, and then draws.
  refresh() {
    this.u?.batch(() => this.u.setScale("x", { min: 0, max: 1 }));
  }

  light(isLit) {
    if (!isLit && !this.lit) return;
    this.lit = isLit;
    this.u?.redraw(false);
  }

  repaint() {
    if (this.u) this.make();
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.host;
    if (this.u && width && height && (width !== this.u.width || height !== this.u.height)) this.u.setSize({ width, height });
  }

  get width() {
    return this.u ? this.u.bbox.width / devicePixelRatio : this.host.clientWidth || 320;
  }

  get height() {
    return this.u.bbox.height / devicePixelRatio;
  }

  // The stretch of x that is shown.
  get range() {
    return this.look.view ?? this.extent;
  }

  toValue(left) {
    return this.u.posToVal(left, "x");
  }

  toLeft(x) {
    return this.u.valToPos(x, "x");
  }

  toTop(y) {
    return this.u.valToPos(y, "y");
  }

  close() {
    this.resizer.disconnect();
    removeEventListener("themechange", this.onTheme);
    this.u?.destroy();
    this.u = null;
  }

  uplotOptions() {
    const { isLogX, isLogY } = this.look;
    const colourOf = (key) => seriesColour(this.look.colourOf(key));
    const isLit = (key) => (this.lit ? this.lit(key) : null);
    return {
      width: this.host.clientWidth || 320,
      height: this.host.clientHeight || 196,
      padding: [10, 20, 0, 0],
      legend: { show: false },
      cursor: { show: false },
      select: { show: false },
      scales: {
        x: { time: false, distr: isLogX ? 3 : 1, range: () => this.range },
        y: { distr: isLogY ? 3 : 1, range: () => yRangeOf(this.built, this.range, isLogY) },
      },
      axes: axesOf({ ...this.look, format: this.format }),
      series: [{}, { show: false }],
      hooks: {
        drawAxes: [(u) => drawMarks(u, this.built.marks)],
        draw: [(u) => drawLines(u, this.built, { colourOf, isLit }), (u) => drawBad(u, this.built.bad), () => this.onPlace()],
      },
    };
  }

  // The place in x that is nearest to a value of it.
  placeOf(x) {
    return nearestPlace(this.built.x, x);
  }
}

function shapeOf({ axis, isLogX, isLogY }) {
  return `${axis} ${isLogX} ${isLogY}`;
}
