// When charts are drawn: together in an animation frame, seldom enough that the page stays free for the person, never
// unseen.
const LIVE_MS = 100; // new data: at most ten times a second
const CALM_MS = 250; // of charts in which it moves nothing that anybody sees
const SHARE = 3; // …and three times as long idle as drawing
const FRAME_MS = 12; // what one frame may take; the rest is drawn in the next

export class Painter {
  // draw(name); isCalm(name): whether what comes new to it is less than a pixel
  /** @param {(name: string) => void} draw @param {(name: string) => boolean} [isCalm] */
  constructor(draw, isCalm = () => false) {
    this.draw = draw;
    this.isCalm = isCalm;
    this.dirty = new Set();
    this.urgent = new Set(); // of these: what a person changed
    this.drawnAt = new Map();
    this.timer = 0;
    this.frame = 0;
    this.idleUntil = 0;
    this.isWaiting = false; // nobody looks
    this.onVisibility = () => this.isWaiting && !document.hidden && this.schedule(0);
    document.addEventListener("visibilitychange", this.onVisibility);
  }

  // New data came.
  want(name) {
    this.dirty.add(name);
    if (!this.timer && !this.frame) this.schedule(Math.max(0, this.idleUntil - performance.now()));
  }

  // A person changed something: in the next frame.
  now(names) {
    for (const name of names) {
      this.dirty.add(name);
      this.urgent.add(name);
    }
    this.schedule(0);
  }

  schedule(wait) {
    clearTimeout(this.timer);
    this.timer = 0;
    this.isWaiting = document.hidden;
    if (this.isWaiting) return;
    if (wait > 0) this.timer = setTimeout(() => this.schedule(0), wait);
    else this.frame ||= requestAnimationFrame(() => this.paint());
  }

  paint() {
    this.frame = 0;
    const start = performance.now();
    let end = start;
    let isLate = false;
    for (const name of this.dirty) {
      if (this.mayWait(name, start)) continue;
      isLate = end - start > FRAME_MS;
      if (isLate) break;
      this.dirty.delete(name);
      this.urgent.delete(name);
      this.draw(name);
      end = performance.now();
      this.drawnAt.set(name, end);
    }
    const rest = Math.max(LIVE_MS, SHARE * (end - start));
    this.idleUntil = end + rest;
    if (this.dirty.size) this.schedule(isLate ? 0 : rest);
  }

  mayWait(name, now) {
    return !this.urgent.has(name) && now - (this.drawnAt.get(name) ?? -Infinity) < CALM_MS && this.isCalm(name);
  }

  close() {
    clearTimeout(this.timer);
    cancelAnimationFrame(this.frame);
    document.removeEventListener("visibilitychange", this.onVisibility);
  }
}
