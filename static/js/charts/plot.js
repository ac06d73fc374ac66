// One uPlot chart: lines with their raw shadow, bands of buckets, restarts as dashed lines, NaN as red ticks on the axis.
import uPlot from "uplot";
import { axesOf, padded } from "./axes.js";
import { faded, seriesColour } from "../colours.js";
import { drawBad, drawMarks } from "./marks.js";

const HEIGHT = 196;

export class Plot {
  // options: {axis, isLog, group, format, indexOf(key) -> colour index, onCursor(index or null), onZoom([from, to] or null)}
  constructor(host, options) {
    this.host = host;
    this.options = options;
    this.shape = "";
    this.built = null;
    this.plot = null;
    this.resizer = new ResizeObserver(() => this.resize());
    this.resizer.observe(host);
  }

  draw(built) {
    const old = this.built;
    this.built = built;
    const shape = JSON.stringify([built.columns, this.options.isLog, this.options.axis]);
    const data = [built.x, ...built.ys];
    if (!this.plot || shape !== this.shape) {
      this.shape = shape;
      this.plot?.destroy();
      this.plot = built.x.length ? new uPlot(this.uplotOptions(), data, this.host) : null;
      this.plot?.over.addEventListener("dblclick", () => this.options.onZoom(null));
      return;
    }
    const { min, max } = this.plot.scales.x;
    const isZoomed = old?.x.length && (min > old.x[0] || max < old.x.at(-1));
    this.plot.batch(() => {
      this.plot.setData(data, !isZoomed);
      if (isZoomed) this.plot.setScale("x", { min, max });
    });
  }

  // After the theme changed: same data, other colours.
  repaint() {
    this.shape = "";
    if (this.built) this.draw(this.built);
  }

  resize() {
    if (this.plot && this.host.clientWidth) this.plot.setSize({ width: this.host.clientWidth, height: this.height() });
  }

  height() {
    return this.host.closest(".is-expanded") ? Math.max(240, this.host.clientHeight) : HEIGHT;
  }

  // The value of each line at a place on the x axis: the nearest one at or before it.
  at(index) {
    const found = new Map();
    this.built?.columns.forEach(({ kind, key }, place) => {
      if (kind !== "main" || found.has(key)) return;
      for (let at = index; at >= 0 && at > index - 200; at -= 1) {
        const value = this.built.ys[place][at];
        if (value !== undefined) return found.set(key, value);
      }
    });
    return found;
  }

  // Whether the crosshair is on the mark of a restart.
  isAtRestart() {
    const { plot, built } = this;
    return built.marks.some(({ x }) => Math.abs(plot.valToPos(x, "x") - plot.cursor.left) < 6);
  }

  close() {
    this.resizer.disconnect();
    this.plot?.destroy();
    this.plot = null;
  }

  uplotOptions() {
    const { axis, isLog, group, format } = this.options;
    return {
      width: this.host.clientWidth || 320,
      height: this.height(),
      padding: [8, 16, 0, 0],
      legend: { show: false },
      pxAlign: false,
      cursor: {
        sync: { key: `${group} ${axis}`, scales: ["x", null], setSeries: false },
        drag: { x: true, y: false, setScale: true },
        points: { size: 6, width: 1.5, show: (u, place) => place > 0 && this.built.columns[place - 1]?.kind === "main" && undefined },
        y: false,
      },
      scales: { x: { time: false }, y: { distr: isLog ? 3 : 1, range: isLog ? undefined : padded } },
      axes: axesOf(axis, format),
      series: [{}, ...this.built.columns.map((column) => this.series(column))],
      bands: this.bands(),
      hooks: {
        drawAxes: [(u) => drawMarks(u, this.built.marks)],
        draw: [(u) => drawBad(u, this.built.bad)],
        setSelect: [(u) => u.select.width > 0 && this.options.onZoom([u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")])],
        setCursor: [(u) => this.options.onCursor(u.cursor.idx ?? null, this)],
      },
    };
  }

  series({ kind, key }) {
    const stroke = seriesColour(this.options.indexOf(key));
    const shared = { spanGaps: false, points: { show: false } };
    if (kind === "low" || kind === "high") return { ...shared, stroke: "transparent", width: 0 };
    if (kind === "raw") return { ...shared, stroke: faded(stroke, 0.28), width: 1 };
    if (kind === "ghost") return { ...shared, stroke: faded(stroke, 0.38), width: 1.25, dash: [4, 3] };
    return { ...shared, stroke, width: 1.6, points: { show: (u, place) => dense(u, place), size: 5, stroke, fill: stroke } };
  }

  bands() {
    const found = [];
    this.built.columns.forEach(({ kind, key }, place) => {
      if (kind !== "low") return;
      found.push({ series: [place + 2, place + 1], fill: faded(seriesColour(this.options.indexOf(key)), 0.16) });
    });
    return found;
  }
}

// Points are drawn as dots only where there are so few that a line would hide them.
function dense(u, place) {
  let seen = 0;
  for (const value of u.data[place]) {
    if (value !== undefined && value !== null) seen += 1;
    if (seen > 14) return false;
  }
  return true;
}
