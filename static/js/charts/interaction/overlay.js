// What moves over a plot without it being drawn again: the crosshair with a dot on each line, and the stretch that is
// being chosen.

import { seriesToken } from "../../shared/colours.js";
import { make } from "../../shared/dom.js";

const MOST_DOTS = 12; // with more lines only the one that is lit has one

export class Overlay {
  constructor() {
    this.line = make("i", { className: "chart-crosshair", hidden: true });
    this.band = make("i", { className: "chart-selection", hidden: true });
    this.dots = [];
  }

  attach(over) {
    over.append(this.line, this.band, ...this.dots);
  }

  // left: pixels, null where there is no crosshair; dots: [{top, colour, isLit}]
  place(left, dots) {
    this.line.hidden = left === null;
    if (left !== null) this.line.style.transform = `translateX(${left}px)`;
    const shown = left === null ? [] : dots.length > MOST_DOTS ? dots.filter(({ isLit }) => isLit) : dots;
    while (this.dots.length < shown.length) {
      this.dots.push(make("i", { hidden: true }));
      this.line.parentElement?.append(this.dots.at(-1));
    }
    this.dots.forEach((dot, at) => {
      dot.hidden = at >= shown.length;
      if (dot.hidden) return;
      dot.className = `chart-dot ${seriesToken(shown[at].colour)}`;
      dot.style.transform = `translate(${shown[at].left ?? left}px, ${shown[at].top}px)`;
    });
  }

  choose(from, to) {
    this.band.hidden = from === null;
    if (from === null) return;
    this.band.style.left = `${Math.min(from, to)}px`;
    this.band.style.width = `${Math.abs(to - from)}px`;
  }
}
