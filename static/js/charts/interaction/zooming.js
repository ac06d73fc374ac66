// The stretch of x in view, as hands and keys move it: at once in the plot, and when they rest for all charts.
import { panned, within, zoomed } from "../scales/views.js";

const REST_MS = 140;
const LEAST = { step: 1, relative: 0.001, time: 0.001 };

export class Zooming {
  // onZoom(range or null): called when the gesture ends.
  constructor(plot, onZoom) {
    this.plot = plot;
    this.onZoom = onZoom;
    this.held = undefined; // the range while hands are at it; undefined: they are not
    this.timer = 0;
  }

  pan(share) {
    this.hold(panned(this.plot.range, share, this.plot.look.isLogX));
  }

  about(x, factor) {
    this.hold(zoomed(this.plot.range, x, factor, this.plot.look.isLogX));
  }

  hold(range) {
    const { plot } = this;
    this.held = within(range, plot.extent, LEAST[plot.look.axis]);
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      if (this.held !== undefined) plot.setView(this.held);
    });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.settle(), REST_MS);
  }

  settle() {
    clearTimeout(this.timer);
    if (this.held === undefined) return;
    const range = this.held;
    this.held = undefined;
    this.onZoom(range);
  }

  set(range) {
    this.held = range && within(range, this.plot.extent, LEAST[this.plot.look.axis]);
    this.settle();
  }

  close() {
    clearTimeout(this.timer);
    cancelAnimationFrame(this.frame);
  }
}
