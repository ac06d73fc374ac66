// One histogram as bars.
import { upperBound } from "../../charts/scales/views.js";
import { colour, faded, seriesColour } from "../../shared/colours.js";
import { tick } from "../../shared/format.js";
import { Plot } from "./plot.js";
import { words } from "./reading.js";

const AMOUNTS = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };

export class Bars {
  constructor(host, { label, onRead }) {
    this.data = null;
    this.at = null;
    this.onRead = onRead;
    this.plot = new Plot(host, {
      label: `Histogram of ${label}; the arrow keys read it`,
      tickX: tick,
      tickY: tick,
      paint: () => this.paint(),
      mark: () => this.mark(),
      onPoint: (x) => this.data && this.read(this.within(upperBound(this.data.edges, x) - 1)),
      onLeave: () => this.data && this.read(null),
      onKey: (key) => this.onKey(key),
    });
  }

  // data: {edges, counts}
  show(data) {
    this.data = data;
    if (this.at !== null) this.at = this.within(this.at); // from step to step
    this.total = data.counts.reduce((sum, one) => sum + one, 0) || 1;
    this.plot.show([data.edges[0], data.edges.at(-1)], [0, Math.max(1, ...data.counts) * 1.04]);
  }

  within(bin) {
    return Math.max(0, Math.min(this.data.counts.length - 1, bin));
  }

  read(bin) {
    this.at = bin;
    this.plot.mark();
    this.onRead(this.reading());
  }

  reading() {
    if (this.at === null) return "";
    const { edges, counts } = this.data;
    return words(edges, this.at, counts[this.at], counts[this.at] / this.total);
  }

  onKey(key) {
    if (!this.data || AMOUNTS[key] === undefined) return false;
    this.read(this.within((this.at ?? this.data.counts.length >> 1) + AMOUNTS[key]));
    return true;
  }

  paint() {
    if (!this.data) return;
    const fill = seriesColour(0);
    this.data.counts.forEach((_, bin) => this.bar(bin, fill));
  }

  mark() {
    if (this.at === null) return;
    const { plot } = this;
    const [from, to] = this.edgesOf(this.at);
    plot.pen.fillStyle = faded(colour("text"), 0.1);
    plot.pen.fillRect(from, plot.top(plot.y[1]), to - from, plot.height);
    this.bar(this.at, colour("text"));
  }

  bar(bin, fill) {
    const { plot, data } = this;
    const [from, to] = this.edgesOf(bin);
    const top = plot.top(data.counts[bin]);
    plot.pen.fillStyle = fill;
    plot.pen.fillRect(from, top, Math.max(1, to - from - (to - from > 4 ? 1 : 0)), plot.top(0) - top);
  }

  edgesOf(bin) {
    return [this.plot.left(this.data.edges[bin]), this.plot.left(this.data.edges[bin + 1])];
  }
}
