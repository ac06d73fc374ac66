// When charts are drawn: together in an animation frame, seldom enough that the page stays free for the person, never unseen.
const LIVE_MS = 100; // new data: at most ten times a second
const SHARE = 3; // …and three times as long idle as drawing
const FRAME_MS = 12; // what one frame may take; the rest is drawn in the next

export class Painter {
  constructor(draw) {
    this.draw = draw; // of a name
    this.dirty = new Set();
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
    for (const name of names) this.dirty.add(name);
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
    for (const name of this.dirty) {
      this.dirty.delete(name);
      this.draw(name);
      if (performance.now() - start > FRAME_MS) break;
    }
    const end = performance.now();
    this.idleUntil = end + Math.max(LIVE_MS, SHARE * (end - start));
    if (this.dirty.size) this.schedule(0);
  }

  close() {
    clearTimeout(this.timer);
    cancelAnimationFrame(this.frame);
    document.removeEventListener("visibilitychange", this.onVisibility);
  }
}
