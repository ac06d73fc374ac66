// Histograms over steps as a heat map: a column per step, a row per bin, the colour is the bin's share of its step.
import { nearestPlace, upperBound } from "../../charts/scales/views.js";
import { colour, faded, seriesColour } from "../../shared/colours.js";
import { count, number, tick } from "../../shared/format.js";
import { Plot } from "./plot.js";
import { words } from "./reading.js";
import { shares, stretches } from "./scale.js";

const LAST = 64; // of the shades
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
    plot.legend(all, "share of the values  0 %", number(this.most * 100, "%"));
  }

  mark() {
    if (!this.data?.steps.length) return;
    const { plot, data } = this;
    if (data.steps.includes(this.chosen)) plot.upright(this.chosen, colour("accent"), []);
    if (!this.at) return;
    const [column, bin] = this.at;
    plot.upright(data.steps[column], colour("muted"), [3, 3]);
    const ends = this.stretches[column].map((step) => plot.left(step));
    plot.box(ends, [plot.top(data.edges[bin + 1]), plot.top(data.edges[bin])]);
  }
}

// Colours of a heat map. The scale goes by the square root of the share, so that thin tails are seen.
const shades = () => Array.from({ length: LAST + 1 }, (_, at) => faded(seriesColour(0), 0.06 + (0.94 * at) / LAST));

const shadeOf = (share, most) => Math.round(Math.sqrt(share / most) * LAST);
