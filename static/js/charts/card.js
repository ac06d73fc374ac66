// One chart's card: title, value, plot, legend, and the tools that show on hover and focus.
import { formatOf } from "../format.js";
import { build } from "./build.js";
import { axisOf } from "./names.js";
import { Flags } from "./flags.js";
import { Legend } from "./legend.js";
import { Plot } from "./plot.js";
import { Pointing } from "./pointing.js";
import { ends, readAt, rowsOf, spoken, spread } from "./readout.js";
import { HEIGHT, listenResize } from "./resize.js";
import { listenTools, showTools, TOOLS } from "./tools.js";
import { Zooming } from "./zooming.js";

const NEAR_PX = 6; // of a restart's line, for the crosshair to say it

export class Card {
  // context: what the page lends its charts. isLarge: the one of the full screen.
  constructor(name, context, { isLarge = false } = {}) {
    Object.assign(this, { name, context, isLarge, format: formatOf(name), rows: [], built: null, twin: null, plot: null });
    this.settings = context.settings(name);
    this.element = context.template.content.firstElementChild.cloneNode(true);
    const part = (selector) => this.element.querySelector(selector);
    [this.host, this.value, this.spread, this.nothing] = [".chart-plot", ".chart-value", ".chart-spread", ".chart-nothing"].map(part);
    part("h3").textContent = isLarge ? name : titleOf(name);
    part("h3").title = name;
    this.element.setAttribute("aria-label", name);
    this.host.setAttribute("aria-label", `Plot of ${name}`);
    this.element.classList.toggle("is-large", isLarge);
    this.element.chart = this;
    this.legendHost = part(".chart-legend");
    this.legend = new Legend(this.legendHost, { sort: (by) => this.sortBy(by), light: (line) => context.crosshair.light(line) });
    this.flags = new Flags((mark) => this.sentenceOf(mark));
    this.pointing = new Pointing(this);
    listenTools(this);
    listenResize(part(".chart-resize"), { sizeOf: () => this.size, set: (size, isDone) => this.resize(size, isDone), columnWidth: () => this.element.offsetWidth / this.size.columns });
    this.showSize();
  }

  get axis() {
    return axisOf(this.name, this.settings.axis);
  }

  get isShown() {
    return Boolean(this.plot || this.twin);
  }

  get size() {
    return { columns: 1, height: HEIGHT, ...this.settings.size };
  }

  show() {
    if (this.plot) return;
    this.plot = new Plot(this.host, { format: this.format, onPlace: () => this.onPlace() });
    this.plot.onMake = ({ over }) => this.pointing.attach(over);
    this.zooming = new Zooming(this.plot, (range) => this.context.onZoom(this.axis, range));
    if (this.context.store.loaded.has(this.name)) this.draw();
    else this.context.store.want(this.name);
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
    const entry = this.context.windows.entry(this.name);
    this.settings = this.context.settings(this.name);
    this.showSize();
    showTools(this, this.settings);
    if (!this.plot || !entry) return;
    const { axis, context, settings } = this;
    const view = this.view();
    this.built = build(entry, { ...settings, axis, width: this.plot.width, view });
    this.plot.draw(this.built, { axis, isLogX: settings.isLogX && axis !== "time", isLogY: settings.isLogY, view, colourOf: (key) => context.colourOf(key, this.built) });
    const { colourOf, labelOf } = context;
    this.rows = rowsOf(this.built, { colourOf, labelOf, sort: settings.sort, format: this.format });
    this.showState();
    this.legendHost.hidden = this.rows.length <= 1;
    if (this.rows.length > 1) this.legend.show(this.rows, settings.sort);
    this.point(this.x ?? null, context.crosshair.source === this);
  }

  // Only the stretch in view has changed.
  follow() {
    this.twin?.follow();
    if (this.plot?.u && this.zooming.held === undefined) this.plot.setView(this.view());
  }

  view() {
    return this.zooming.held === undefined ? (this.context.windows.range(this.axis) ?? null) : this.zooming.held;
  }

  // What is to say where there is no line.
  showState() {
    const isEmpty = !this.rows.some(({ order }) => Number.isFinite(order.min));
    this.element.classList.toggle("is-empty", isEmpty);
    this.element.classList.toggle("is-bare", isEmpty && !this.built.bad.length);
    put(this.nothing, !isEmpty ? "" : this.built.bad.length ? "no value here is a number" : "no points yet");
  }

  onPlace() {
    if (!this.plot?.u) return;
    this.flags.show(this.plot.u.over, this.plot);
    this.point(this.x ?? null, false);
  }

  // The crosshair is at x, or nowhere.
  point(x, isSource) {
    const { plot, built, format } = this;
    this.x = x;
    if (!plot?.u || !built) return;
    const isIn = x !== null && built.x.length > 0 && x >= plot.range[0] && x <= plot.range[1];
    this.pointing.place = isIn ? plot.placeOf(x) : null;
    const reading = isIn ? readAt(built, this.pointing.place, this.axis, format) : null;
    this.reading = reading;
    const dots = isIn ? this.dots(reading) : [];
    this.pointing.overlay.place(isIn ? plot.toLeft(isSource ? reading.x : x) : null, dots);
    this.showValues(reading);
  }

  dots({ values }) {
    const { key: lit } = this.context.crosshair.line ?? {};
    return [...values].map(([key, { x, value }]) => ({ left: this.plot.toLeft(x), top: this.plot.toTop(value), colour: this.context.colourOf(key, this.built), isLit: key === lit }));
  }

  showValues(reading) {
    const [row] = this.rows;
    const isSingle = this.rows.length === 1;
    const at = isSingle ? reading?.values.get(row.key) : null;
    const value = !isSingle ? "" : reading ? (at ? this.format(at.value) : "–") : row.value;
    const note = reading && this.markAt() ? "restarted here" : "";
    put(this.value, [note, reading?.where, value].filter(Boolean).join("  ·  "));
    put(this.spread, at ? spread(at, this.format) : "");
    this.value.title = isSingle ? ends(row) : "";
    if (!isSingle) this.legend.values(reading?.texts ?? new Map(this.rows.map(({ key, value: last }) => [key, last])));
  }

  // The line is lit where it is; where it is not, the lines of its run are; where there are none, nothing changes.
  shine(line) {
    const lines = this.built?.lines;
    let isLit = null;
    if (line && lines?.has(line.key)) isLit = (key) => key === line.key;
    else if (line) {
      const isOf = (key) => (lines?.get(key)?.runs ?? [lines?.get(key)?.run]).some((run) => line.runs.includes(run));
      if ([...(lines?.keys() ?? [])].some(isOf)) isLit = isOf;
    }
    if (this.rows.length > 1) {
      this.plot?.light(isLit);
      this.legend.shine(isLit);
    }
  }

  markAt() {
    const { plot, built } = this;
    const left = plot.toLeft(this.reading.x);
    return built.marks.find(({ x }) => Math.abs(plot.toLeft(x) - left) < NEAR_PX);
  }

  sentenceOf({ run, attempt }) {
    return this.context.causeOf(run, attempt)?.sentence ?? `Attempt ${attempt} began here.`;
  }

  spoken() {
    if (!this.reading) return "";
    const mark = this.markAt();
    return spoken(this.reading, this.rows, this.context.crosshair.line?.key, mark ? this.sentenceOf(mark) : "");
  }

  press(tool) {
    TOOLS[tool](this);
  }

  sortBy(by) {
    const { sort } = this.settings;
    this.context.changeAll({ sort: { by, isDescending: sort.by === by ? !sort.isDescending : by !== "name" } });
  }

  resize(size, isDone) {
    this.settings = { ...this.settings, size: size ?? undefined };
    this.showSize();
    if (isDone) this.context.change(this.name, { size });
  }

  showSize() {
    const { columns, height } = this.size;
    this.element.dataset.columns = columns;
    this.host.style.setProperty("--plot-height", `${height}px`);
  }

  // What the chart holds, for who asks from a script: a row for each point, buckets by their mean.
  points() {
    const rows = ({ run, labels, parts }) => [...parts].flatMap(([attempt, { step, time, value }]) => Array.from(step, (one, at) => ({ run, labels, attempt, step: one, time: time[at], value: value[at] })));
    return [...(this.context.store.loaded.get(this.name)?.lines.values() ?? [])].flatMap(rows);
  }
}

// Without the section's name; where training and validation share a section, with it.
function titleOf(name) {
  return name.includes("/") && !/^(train|val)\//.test(name) ? name.slice(name.indexOf("/") + 1) : name;
}

function put(element, words) {
  if (element.textContent !== words) element.textContent = words;
}
