// One chart's card: when it is drawn, from what, and how large.
import { Plot } from "../drawing/plot.js";
import { Pointing } from "../interaction/pointing.js";
import { HEIGHT, listenResize } from "../interaction/resize.js";
import { Zooming } from "../interaction/zooming.js";
import { build } from "../lines/build.js";
import { lowerBound } from "../scales/views.js";
import { Reader } from "./reader.js";
import { listenTools, showTools, TOOLS } from "./tools.js";

const STILL_PX = 0.5;

export class Card {
  // context: what the page lends its charts. isLarge: the one of the full screen.
  constructor(name, context, { isLarge = false } = {}) {
    this.name = name;
    this.context = context;
    this.isLarge = isLarge;
    this.format = context.formatOf(name);
    this.built = null;
    this.twin = null;
    this.plot = null;
    this.settings = context.settings(name);
    this.element = context.template.content.firstElementChild.cloneNode(true);
    this.title = context.titleOf(name);
    this.element.setAttribute("aria-label", this.title);
    this.element.classList.toggle("is-large", isLarge);
    this.element.chart = this;
    this.host = this.element.querySelector(".chart-plot");
    this.host.setAttribute("aria-label", `Plot of ${this.title}`);
    const title = this.element.querySelector("h3");
    title.textContent = context.titleOf(name, !isLarge);
    title.title = this.title;
    this.reader = new Reader(this);
    this.pointing = new Pointing(this);
    listenTools(this);
    listenResize(this.element.querySelector(".chart-resize"), {
      sizeOf: () => this.size,
      set: (size, isDone) => this.resize(size, isDone),
      columnWidth: () => this.element.offsetWidth / this.size.columns,
    });
    this.showSize();
  }

  get axis() {
    return this.context.axisOf(this.name, this.settings.axis);
  }

  get rows() {
    return this.reader.rows;
  }

  // Whether somebody can see it, be it large.
  get isShown() {
    return Boolean(this.plot || this.twin);
  }

  get size() {
    return { columns: 1, height: HEIGHT, ...this.settings.size };
  }

  show() {
    if (this.plot) return;
    this.plot = new Plot(this.host, { format: this.format, onPlace: () => this.reader.place() });
    this.plot.onMake = (over) => this.pointing.attach(over);
    this.zooming = new Zooming(this.plot, (range) => this.context.onZoom(this.axis, range));
    this.context.want(this.name);
    this.draw();
    this.context.crosshair.join(this);
  }

  hide() {
    if (!this.plot) return;
    this.context.crosshair.leave(this);
    this.pointing.close();
    this.zooming.close();
    this.plot.close();
    this.plot = null;
  }

  close() {
    this.hide();
    this.element.remove();
  }

  draw() {
    this.twin?.draw();
    this.settings = this.context.settings(this.name);
    this.showSize();
    showTools(this, this.settings);
    const entry = this.plot && this.context.entry(this.name);
    if (!entry) return;
    const { axis, settings } = this;
    const view = this.view();
    this.colours = new Map();
    const isOwn = axis.startsWith("value "); // in the place of steps
    this.built = build(entry, { ...settings, axis: isOwn ? "step" : axis, width: this.plot.width, view });
    this.built.marks.push(...this.context.marksOf(this.name, axis, (run, time) => stepAt(entry, run, time)));
    const before = this.plot.extent;
    this.plot.draw(this.built, {
      axis: isOwn ? "value" : axis,
      isLogX: settings.isLogX && axis !== "time",
      isLogY: settings.isLogY,
      view,
      colourOf: (key) => this.colourOf(key),
    });
    this.isCalm = !this.twin && isStill(before, this.plot.extent, this.plot.width);
    this.reader.show();
  }

  // Asked for each line in each frame.
  colourOf(key) {
    if (!this.colours.has(key)) this.colours.set(key, this.context.colourOf(key, this.built, this.name));
    return this.colours.get(key);
  }

  // Only the stretch in view has changed.
  follow() {
    this.twin?.follow();
    if (this.plot?.frame && this.zooming.held === undefined) this.plot.setView(this.view());
  }

  // The range of x in view, null for all of it: while hands are at it, theirs.
  view() {
    return this.zooming.held === undefined ? (this.context.windows.range(this.axis) ?? null) : this.zooming.held;
  }

  // What the page's crosshair asks of each chart.
  point(x, isSource) {
    this.reader.point(x, isSource);
  }

  shine(line) {
    this.reader.shine(line);
  }

  // Where the crosshair is, else the last one; 0 where the axis has no steps.
  get step() {
    return this.axis === "step" ? Math.round(this.pointing.x ?? this.built?.x.at(-1) ?? 0) : 0;
  }

  press(tool) {
    TOOLS[tool](this);
  }

  resize(size, isDone) {
    this.settings = { ...this.settings, size: size ?? undefined };
    this.showSize();
    if (isDone) this.context.change(this.name, { size });
  }

  showSize() {
    const { columns, height } = this.size;
    this.element.dataset.columns = columns; // the grid's stylesheet reads it
    this.host.style.setProperty("--plot-height", `${height}px`);
  }

  // What the chart holds, for scripts: a row for each point, buckets by their mean.
  points() {
    const rows = ({ run, labels, parts }) =>
      [...parts].flatMap(([attempt, { step, time, value }]) =>
        Array.from(step, (one, at) => ({ run, labels, attempt, step: one, time: time[at], value: value[at] })),
      );
    return [...(this.context.entry(this.name)?.lines.values() ?? [])].flatMap(rows);
  }
}

// The last step of the run that this chart has from before the time; null where there is none.
function stepAt(entry, run, time) {
  const found = [...(entry?.lines.values() ?? [])]
    .filter((line) => line.run === run)
    .flatMap(({ parts }) => [...parts.values()].map((part) => part.step[lowerBound(part.time, time) - 1]));
  return found.reduce((most, step) => (step === undefined ? most : Math.max(most ?? step, step)), null);
}

// Whether x has grown by so little that nothing moved in the plot.
function isStill(before, after, width) {
  if (!before || !after) return false;
  const moved = Math.abs(after[0] - before[0]) + Math.abs(after[1] - before[1]);
  return (moved / (after[1] - after[0])) * width < STILL_PX;
}
