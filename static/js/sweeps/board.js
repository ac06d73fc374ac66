// One drawing on the page: made when it first comes into view, drawn again with its card's width and with the theme.
import { all, say, seek } from "../shared/dom.js";
import { importance } from "./plots/importance.js";

/** @type {Promise<any> | null} */
let library = null;

// ECharts is a third of a megabyte: it comes after the page's words, and once.
export function load() {
  library ??= import("./library.js");
  return library;
}

export class Board {
  /** @param {HTMLElement} element */
  constructor(element) {
    this.element = element;
    /** @type {any} */
    this.chart = null;
    /** @type {(() => Sweeps.Option) | null} */
    this.build = null;
    /** @type {((chart: any) => void)[]} */
    this.listeners = [];
    this.isSeen = false;
    this.isStale = false;
    this.isOver = false;
    this.drawn = Promise.resolve();
    this.sight = new IntersectionObserver((entries) => this.onSight(entries.some((one) => one.isIntersecting)), {
      rootMargin: "200px",
    });
    this.size = new ResizeObserver(() => this.chart?.resize());
    this.onTheme = () => this.inTheme();
    this.sight.observe(element);
    this.size.observe(element);
    addEventListener("themechange", this.onTheme);
  }

  /** Is called with the chart once there is one. @param {(chart: any) => void} listener */
  whenMade(listener) {
    this.listeners.push(listener);
  }

  /** @param {() => Sweeps.Option} build */
  show(build) {
    this.build = build;
    this.again();
  }

  again() {
    this.isStale = true;
    if (this.isSeen) this.drawn = this.draw();
  }

  // A drawing out of sight takes the new theme at once, too: one may scroll to it, or print the page.
  inTheme() {
    if (this.chart) this.drawn = this.draw();
    else this.again();
  }

  /** @param {boolean} isSeen */
  onSight(isSeen) {
    this.isSeen = isSeen;
    if (isSeen && this.isStale) this.drawn = this.draw();
  }

  async draw() {
    if (!this.build) return;
    this.isStale = false;
    const { init } = await load();
    if (this.isOver || !this.build) return;
    if (!this.chart) {
      this.chart = init(this.element, null, { renderer: "canvas" });
      for (const listener of this.listeners) listener(this.chart);
    }
    this.chart.setOption({ ...this.build(), animation: false }, { notMerge: true });
  }

  end() {
    this.isOver = true;
    this.sight.disconnect();
    this.size.disconnect();
    removeEventListener("themechange", this.onTheme);
    this.chart?.dispose();
  }
}

// The drawings of a part of the page, by their names, and the words beside them.
export class Boards {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    /** @type {Record<string, Board>} */
    this.boards = {};
    for (const one of all(root, "[data-plot]")) this.boards[one.dataset.plot ?? ""] = new Board(one);
  }

  /** @param {string} name @param {string} words */
  write(name, words) {
    say(seek(this.root, `[data-words="${name}"]`), words);
  }

  /** @param {string} selector @param {boolean} isShown */
  show(selector, isShown) {
    const element = seek(this.root, selector);
    if (element) element.hidden = !isShown;
  }

  // Gives a drawing the room that what it shows needs.
  /** @param {string} name @param {number} height @param {number} [width] */
  grow(name, height, width = 0) {
    const element = this.boards[name]?.element;
    if (!element) return;
    if (height) element.style.height = `${height}px`;
    if (width) element.style.minWidth = `${width}px`;
  }

  // Returns whether there is a field to draw.
  /** @param {Sweeps.Importance} found @param {string} words @param {number} least rows */
  drawImportance(found, words, least) {
    const num = found.fields?.length ?? 0;
    this.write("importance", words);
    this.show("[data-plot=importance]", num > 0);
    this.show("[data-key-of=importance]", num > 0);
    if (!num) return false;
    this.grow("importance", 60 + 40 * Math.max(least, Math.min(12, num)));
    this.boards.importance?.show(() => importance(found));
    return true;
  }
}
