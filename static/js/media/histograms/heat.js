// Histograms over steps as a heat map: a column per step, a row per bin, the colour is the bin's share of its step.
import { nearestPlace, upperBound } from "../../charts/scales/views.js";
import { colour, faded, seriesColour } from "../../shared/colours.js";
import { count, number, tick } from "../../shared/format.js";
import { line, Plot } from "./plot.js";
import { words } from "./reading.js";
import { shares, stretches } from "./scale.js";

const LAST = 64; // of the shades
const WIDTH = 96; // of the legend
const AMOUNTS = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, 1],
  ArrowDown: [0, -1],
  Home: [-Infinity, 0],
  End: [Infinity, 0],
};

export class Heat {
  // options: {label, onRead(text), onPick(step)}
  constructor(host, { label, onRead, onPick }) {
    this.data = null;
    this.at = null;
    this.chosen = null;
    this.onRead = onRead;
    this.onPick = onPick;
    this.plot = new Plot(host, {
      label: `Heat map of ${label} over steps; the arrow keys read it, Enter goes to the step`,
      tickX: (value) => (Number.isInteger(value) ? count(value) : ""),
      tickY: tick,
      paint: () => this.paint(),
      mark: () => this.mark(),
      onPoint: (x, y) => this.read(nearestPlace(this.data?.steps ?? [], x), this.binOf(y)),
      onLeave: () => this.read(null),
      onPick: () => this.at && onPick(this.data.steps[this.at[0]]),
      onKey: (key) => this.onKey(key),
    });
  }

  // data: {edges, steps, counts: [[of each bin] of each step]}
  show(data) {
    const { edges, steps } = data;
    if (this.at && data.steps[this.at[0]] !== this.data.steps[this.at[0]]) this.at = null;
    this.data = data;
    this.stretches = stretches(steps);
    const found = shares(data.counts);
    this.shares = found.shares;
    this.most = found.most;
    this.plot.show(steps.length ? [this.stretches[0][0], this.stretches.at(-1)[1]] : [0, 1], [edges[0], edges.at(-1)]);
  }

  choose(step) {
    if (this.chosen === step) return;
    this.chosen = step;
    if (this.data) this.plot.mark();
  }

  binOf(value) {
    const edges = this.data?.edges ?? [];
    return Math.max(0, Math.min(edges.length - 2, upperBound(edges, value) - 1));
  }

  read(column, bin) {
    if (!this.data?.steps.length) return;
    this.at = column === null ? null : [column, bin];
    this.plot.mark();
    this.onRead(this.reading());
  }

  reading() {
    if (!this.at) return "";
    const [column, bin] = this.at;
    const { edges, steps, counts } = this.data;
    return `step ${count(steps[column])}:  ${words(edges, bin, counts[column][bin], this.shares[column][bin])}`;
  }

  onKey(key) {
    if (!this.data?.steps.length) return false;
    if (key === "Enter" && this.at) {
      this.onPick(this.data.steps[this.at[0]]);
      return true;
    }
    if (!AMOUNTS[key]) return false;
    const [columns, bins] = AMOUNTS[key];
    const [column, bin] = this.at ?? [this.data.steps.length - 1, (this.data.edges.length - 1) >> 1];
    const within = (value, most) => Math.max(0, Math.min(most, value));
    this.read(within(column + columns, this.data.steps.length - 1), within(bin + bins, this.data.edges.length - 2));
    return true;
  }

  paint() {
    if (!this.data) return;
    const { plot, data } = this;
    const { pen } = plot;
    const all = shades();
    const rows = data.edges.map((edge) => Math.round(plot.top(edge)));
    this.shares.forEach((column, at) => {
      const [from, to] = this.stretches[at].map((step) => Math.round(plot.left(step)));
      column.forEach((share, bin) => {
        if (!share) return;
        pen.fillStyle = all[shadeOf(share, this.most)];
        pen.fillRect(from, rows[bin + 1], Math.max(1, to - from), Math.max(1, rows[bin] - rows[bin + 1]));
      });
    });
    drawLegend(plot, all, this.most);
  }

  mark() {
    if (!this.data?.steps.length) return;
    const { plot, data } = this;
    const { pen } = plot;
    const [top, bottom] = [plot.top(plot.y[1]), plot.top(plot.y[0])];
    const chosen = data.steps.indexOf(this.chosen);
    if (chosen >= 0) this.upright(data.steps[chosen], top, bottom, colour("accent"), []);
    if (!this.at) return;
    this.upright(data.steps[this.at[0]], top, bottom, colour("muted"), [3, 3]);
    const [from, to] = this.stretches[this.at[0]].map((step) => plot.left(step));
    const [low, high] = [plot.top(data.edges[this.at[1]]), plot.top(data.edges[this.at[1] + 1])];
    pen.setLineDash([]);
    pen.strokeStyle = colour("text");
    pen.strokeRect(from - 0.5, high - 0.5, Math.max(3, to - from) + 1, Math.max(3, low - high) + 1);
  }

  upright(step, top, bottom, stroke, dash) {
    const { plot } = this;
    const x = Math.round(plot.left(step)) + 0.5;
    plot.pen.setLineDash(dash);
    plot.pen.strokeStyle = stroke;
    line(plot.pen, x, top, x, bottom);
  }

  close() {
    this.plot.close();
  }
}

// Colours of a heat map. The scale goes by the square root of the share, so that thin tails are seen.
const shades = () => Array.from({ length: LAST + 1 }, (_, at) => faded(seriesColour(0), 0.06 + (0.94 * at) / LAST));

const shadeOf = (share, most) => Math.round(Math.sqrt(share / most) * LAST);

// What the colours mean, above the plot.
function drawLegend(plot, all, most) {
  const { pen } = plot;
  const right = plot.left(plot.x[1]);
  const words = number(most * 100, "%");
  const room = Math.min(WIDTH, plot.width / 3);
  const from = right - room - pen.measureText(words).width - 6;
  all.forEach((shade, at) => {
    // Whole pixels: where two overlapped, they would be darker.
    const [left, end] = [at, at + 1].map((place) => Math.round(from + (place * room) / all.length));
    pen.fillStyle = shade;
    pen.fillRect(left, 6, end - left, 8);
  });
  pen.fillStyle = colour("faint");
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  pen.fillText(words, right, 10.5);
  pen.fillText("share of the values  0 %", from - 6, 10.5);
}
