// One crosshair for the page: where it is in one chart, it is in all with the same axis; a line that is lit is lit in
// all. A member has: axis, point(x or null, isSource), shine(line or null); a line is {key, runs}.

export class Crosshair {
  constructor() {
    this.members = new Set();
    this.at = null; // {axis, x}
    this.line = null;
    this.frame = 0;
    this.source = null;
  }

  join(member) {
    this.members.add(member);
    if (this.at?.axis === member.axis) member.point(this.at.x, false);
    if (this.line) member.shine(this.line);
  }

  leave(member) {
    this.members.delete(member);
    if (this.source === member) this.clear();
  }

  // At once in the chart where the hand is; in the others with the next frame.
  move(axis, x, source) {
    const before = this.at;
    this.at = { axis, x };
    this.source = source;
    source.point(x, true);
    if (before?.axis === axis && before.x === x) return;
    this.frame ||= requestAnimationFrame(() => this.notify());
  }

  clear() {
    if (!this.at) return;
    this.at = null;
    this.source?.point(null, true);
    this.frame ||= requestAnimationFrame(() => this.notify());
  }

  // null: none is lit.
  light(line) {
    if (line?.key === this.line?.key) return;
    this.line = line;
    for (const member of this.members) member.shine(line);
  }

  notify() {
    this.frame = 0;
    for (const member of this.members) {
      if (member === this.source) continue;
      member.point(this.at?.axis === member.axis ? this.at.x : null, false);
    }
    if (!this.at) this.source = null;
  }

  close() {
    cancelAnimationFrame(this.frame);
    this.members.clear();
  }
}
