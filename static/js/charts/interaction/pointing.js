// Hands on a chart: where the pointer or a key puts the crosshair, which line it lights, and what it moves.

import { nextPlace, snap } from "../cards/reading.js";
import { listen } from "./gestures.js";
import { following, listenKeys } from "./keys.js";
import { Overlay } from "./overlay.js";

const NEAR_PX = 14; // a line that is nearer to the pointer is lit
const ANNOUNCE_MS = 220;

export class Pointing {
  constructor(card) {
    this.card = card;
    this.overlay = new Overlay();
    this.place = null; // of the crosshair, in the built x
    this.frame = 0;
    this.timer = 0;
    this.live = card.element.querySelector(".chart-live");
    listenKeys(this);
    card.host.addEventListener("focus", () => this.announce());
    card.host.addEventListener("blur", () => this.leave());
  }

  attach(over) {
    this.overlay.attach(over);
    const { card } = this;
    listen(over, {
      hover: (left, top) => this.hover(left, top),
      leave: () => this.leave(),
      choose: (from, to) => this.overlay.choose(from, to),
      chosen: (from, to) => card.zooming.set([card.plot.toValue(from), card.plot.toValue(to)]),
      pan: (pixels) => card.zooming.pan(pixels / card.plot.width),
      settle: () => card.zooming.settle(),
      zoom: (left, factor) => card.zooming.about(card.plot.toValue(left), factor),
      reset: () => card.zooming.set(null),
    });
  }

  hover(left, top) {
    this.pointer = [left, top];
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      const { plot, context, axis } = this.card;
      if (!this.pointer || !plot?.built?.x.length) return;
      const { place, key, distance } = snap(plot, ...this.pointer);
      context.crosshair.light(distance < NEAR_PX && plot.built.lines.size > 1 ? this.lineOf(key) : null);
      context.crosshair.move(axis, plot.built.x[place], this.card);
    });
  }

  leave() {
    this.pointer = null;
    const { crosshair } = this.card.context;
    if (crosshair.source && crosshair.source !== this.card) return;
    crosshair.light(null);
    crosshair.clear();
  }

  lineOf(key) {
    const line = this.card.built?.lines.get(key);
    return line ? { key, runs: line.runs ?? [line.run] } : null;
  }

  get x() {
    return this.place === null ? null : this.card.built.x[this.place];
  }

  // The start twice: all of it again.
  isHome() {
    return this.place !== null && this.place === nextPlace(this.card.built, -1, 1);
  }

  step(points) {
    const { built, plot } = this.card;
    if (!built?.x.length) return;
    const direction = Math.sign(points);
    let place = this.place ?? plot.placeOf(direction > 0 ? plot.range[0] : plot.range[1]) - direction;
    for (let left = Math.abs(points); left > 0; left -= 1) {
      const next = nextPlace(built, place, direction);
      if (next === null) break;
      place = next;
    }
    this.goTo(place);
  }

  goTo(place) {
    const { card } = this;
    if (place === null || place < 0 || place >= card.built.x.length) return;
    const x = card.built.x[place];
    card.context.crosshair.move(card.axis, x, card);
    const share = following(card.plot.range, x, card.plot.look.isLogX);
    const isWhole = !card.plot.look.view;
    if (share && !isWhole) card.zooming.pan(share);
    this.announce();
  }

  nextLine(step) {
    const keys = this.card.rows.map(({ key }) => key);
    if (keys.length < 2) return false;
    const at = keys.indexOf(this.card.context.crosshair.line?.key);
    this.card.context.crosshair.light(
      this.lineOf(keys[at < 0 ? (step > 0 ? 0 : keys.length - 1) : (at + step + keys.length) % keys.length]),
    );
    return this.announce();
  }

  // Into the live region, when the keys rest.
  announce() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const words = this.card.reader.spoken();
      if (document.activeElement === this.card.host && this.live.textContent !== words) this.live.textContent = words;
    }, ANNOUNCE_MS);
  }

  // Finer points came: what was said may be said better.
  announceAgain() {
    if (document.activeElement === this.card.host) this.announce();
  }

  close() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    clearTimeout(this.timer);
  }
}
