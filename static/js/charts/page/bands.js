// Places bands of words along the x of the charts: the whole stretch, or the one that the charts are zoomed to.
import { all, need, put } from "../../shared/dom.js";
import { where } from "../cards/reading.js";

export class Bands {
  // look: how the charts are drawn now
  /** @param {HTMLElement} element
   * @param {() => {axis: Axis, isLogX: boolean, range?: Span, hidden: Set<string> | null}} look */
  constructor(element, look) {
    this.element = element;
    this.look = look;
    /** @type {Set<string>} */
    this.filtered = new Set(); // names that do not fit what was typed
    this.watcher = new MutationObserver(() => this.place()); // new ones came
    this.watcher.observe(element, { subtree: true, childList: true, attributeFilter: ["data-band"] });
    this.place();
  }

  names() {
    return all(this.element, ".bands").map((panel) => panel.dataset.key ?? "");
  }

  /** @param {Set<string>} filtered */
  filter(filtered) {
    this.filtered = filtered;
    this.place();
  }

  place() {
    const { axis, isLogX, range, hidden } = this.look();
    const scaled = (/** @type {number} */ x) => (isLogX && axis !== "time" ? Math.log(Math.max(1, x)) : x);
    for (const panel of all(this.element, ".bands")) {
      panel.style.display = this.filtered.has(panel.dataset.key ?? "") ? "none" : "";
      const rows = all(panel, "[data-row]").map((row) => ({ row, spans: spansOf(row, axis) }));
      const ends = rows.flatMap(({ spans }) => spans.flatMap(({ span }) => span));
      const [low, high] = range ?? [Math.min(...ends), Math.max(...ends)];
      const [first, width] = [scaled(low), scaled(high) - scaled(low) || 1];
      const shareOf = (/** @type {number} */ x) => Math.min(1, Math.max(0, (scaled(x) - first) / width));
      for (const { row, spans } of rows) {
        row.style.display = hidden?.has(row.dataset.row) ? "none" : "";
        for (const { band, span } of spans) {
          const [left, right] = span.map(shareOf);
          const display = span[1] < low || span[0] > high ? "none" : "";
          Object.assign(band.style, { left: `${100 * left}%`, width: `${100 * (right - left)}%`, display });
        }
      }
      put(need(panel, "[data-low]"), where(low, axis)); // only what differs, or it would be called for ever
      put(need(panel, "[data-high]"), where(high, axis));
    }
  }

  close() {
    this.watcher.disconnect();
  }
}

/** @param {HTMLElement} row @param {Axis} axis @returns {{band: HTMLElement, span: Span}[]} */
function spansOf(row, axis) {
  const zero = axis === "relative" ? Number(row.dataset.start) : 0;
  return all(row, "[data-band]").map((band) => {
    const [first, end, beganAt, endedAt] = (band.dataset.band ?? "").split(" ").map(Number);
    return { band, span: axis === "step" ? [first, end] : [beganAt - zero, endedAt - zero] };
  });
}
