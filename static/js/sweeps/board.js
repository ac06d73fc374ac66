// One drawing on the page: made when it first comes into view, drawn again with its card's width and with the theme.
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
