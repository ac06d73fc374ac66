// The page of a sweep: fetches the columns of its trials, draws them, and keeps them current at most once a second.
import { toast } from "../frame/toasts.js";
import { on } from "../live/live.js";
import { all, around, make, need } from "../shared/dom.js";
import { count, duration, percent } from "../shared/format.js";
import { Board, Boards, load } from "./board.js";
import { apply } from "./brushing.js";
import { bestSoFar } from "./plots/best.js";
import { brushesOf, parallel } from "./plots/parallel.js";
import { pareto, slice } from "./plots/scatter.js";
import { slots } from "./plots/slots.js";
import { surface } from "./plots/surface.js";

const LEAST_MS = 1000; // between two fetches
const MS_PER_TRIAL = 0.5; // a sweep of ten thousand is fetched every five seconds
const AGAIN_MS = 1000; // while figures are being computed
const MOST_SLICES = 12;
const HOURS = 3600;

/** @param {HTMLElement} root */
export function mount(root) {
  const page = new SweepPage(root);
  return () => page.unmount();
}

class SweepPage extends Boards {
  /** @param {HTMLElement} root */
  constructor(root) {
    super(root);
    /** @type {Sweeps.Columns | null} */
    this.columns = null;
    /** @type {Board[]} */
    this.slices = [];
    /** @type {"trials" | "compute"} */
    this.over = "trials";
    this.timer = 0;
    this.lastAt = 0;
    this.numComplete = -1;
    this.figuresTimer = 0;
    this.isBrushed = false;
    this.boards.parallel?.whenMade((chart) => this.listenToBrushes(chart));
    for (const name of ["best", "pareto", "slots"]) this.boards[name]?.whenMade((chart) => this.listenToClicks(chart));
    root.addEventListener("click", (event) => this.onClick(event));
    root.addEventListener("change", (event) => this.onChange(event));
    const mine = (/** @type {any} */ message) => message.sweep === root.dataset.sweep && this.want();
    this.stops = [on("sweep", mine), on("again", () => this.want())];
    load();
    this.fetch();
  }

  unmount() {
    clearTimeout(this.timer);
    clearTimeout(this.figuresTimer);
    this.stops.forEach((stop) => stop());
    [...Object.values(this.boards), ...this.slices].forEach((board) => board.end());
  }

  want() {
    if (this.timer || document.hidden) return;
    const every = Math.max(LEAST_MS, (this.columns?.total ?? 0) * MS_PER_TRIAL);
    this.timer = setTimeout(() => this.fetch(), Math.max(0, this.lastAt + every - Date.now()));
  }

  async fetch() {
    this.lastAt = Date.now();
    const found = await ask(this.root.dataset.columns ?? "");
    this.timer = 0;
    if (!found || !this.root.isConnected) return;
    this.columns = found;
    this.draw(found);
    if (found.complete === this.numComplete) return;
    this.numComplete = found.complete;
    await Promise.all(Object.values(this.boards).map((board) => board.drawn)); // what is there comes first
    if (!this.root.isConnected) return;
    const hasAskedAgain = await this.fetchImportance();
    if (!hasAskedAgain) await this.fetchSurface();
  }

  /** @param {Sweeps.Columns} columns */
  draw(columns) {
    this.boards.best?.show(() => bestSoFar(columns, this.over));
    this.boards.pareto?.show(() => pareto(columns));
    this.boards.slots?.show(() => slots(columns));
    if (!this.isBrushed) this.boards.parallel?.show(() => parallel(columns)); // drawn anew it would lose its brushes
    this.write("parallel", thinnedWords(columns));
    this.write("saved", savedWords(columns));
    this.write("pareto", columns.front.length ? `${count(columns.front.length)} trials that no other beats` : "");
    this.drawSlices(columns);
    this.offerAxes(columns);
    this.grow("slots", 60 + 26 * Math.max(3, Math.min(24, columns.slots.lanes.length)));
    this.grow("parallel", 0, 90 * (columns.fields.length + columns.objectives.length));
  }

  /** @param {Sweeps.Columns} columns */
  drawSlices(columns) {
    const host = need(this.root, "[data-slices]");
    const fields = columns.fields.slice(0, MOST_SLICES);
    while (this.slices.length < fields.length) {
      const element = make("div", { className: "sweep-plot is-slice", role: "img" });
      host.append(element);
      const board = new Board(element);
      board.whenMade((chart) => this.listenToClicks(chart));
      this.slices.push(board);
    }
    fields.forEach((field, at) => {
      this.slices[at].element.setAttribute("aria-label", `${columns.objectives[0].metric} over ${field.label}`);
      this.slices[at].show(() => slice(columns, field));
    });
  }

  // The server computes them beside its requests; until then the ones before stay. Resolves to whether the fields of
  // the surface are others now.
  async fetchImportance() {
    clearTimeout(this.figuresTimer);
    /** @type {Sweeps.Importance | null} */
    const found = await ask(this.root.dataset.importance ?? "");
    if (!found) return false;
    if (!found.isCurrent) this.figuresTimer = setTimeout(() => this.fetchImportance(), AGAIN_MS);
    if (!found.fields) return false;
    const words = [found.sentence, interactionWords(found)].filter(Boolean).join(" ");
    return this.drawImportance(found, words, 5) && this.chooseAxes(found);
  }

  /** Two fields to choose from, until a person chose: the two that matter most. @param {Sweeps.Columns} columns */
  offerAxes(columns) {
    const lists = this.axisLists();
    for (const [at, list] of lists.entries()) {
      if (list.options.length) continue;
      list.replaceChildren(...columns.fields.map(({ label, path }) => new Option(label, path)));
      list.selectedIndex = Math.min(at, columns.fields.length - 1);
    }
    this.show("[data-surface-card]", columns.fields.length >= 2);
  }

  /** @param {Sweeps.Importance} found */
  chooseAxes(found) {
    const lists = this.axisLists();
    const names = found.fields
      .map((one) => one.path)
      .filter((path) => this.columns?.fields.some((one) => one.path === path));
    if (names.length < 2 || lists.some((list) => list.dataset.isChosen)) return false;
    const before = lists.map((list) => list.value).join();
    for (const [at, list] of lists.entries()) list.value = names[at];
    const isOther = lists.map((list) => list.value).join() !== before;
    if (isOther) this.fetchSurface();
    return isOther;
  }

  async fetchSurface() {
    const [x, y] = this.axisLists().map((list) => list.value);
    const fields = this.columns?.fields ?? [];
    const [across, up] = [x, y].map((path) => fields.find((one) => one.path === path));
    if (!across || !up) return;
    if (across === up) return this.write("surface", "Choose two different fields.");
    const found = await ask(`${this.root.dataset.surface}?${new URLSearchParams({ x, y })}`);
    if (!found || !this.columns) return;
    const columns = this.columns;
    this.write("surface", found.num_used ? "Smoothed over the complete trials; blank where none is near." : "");
    this.boards.surface?.show(() => surface(columns, found, across, up));
  }

  axisLists() {
    return /** @type {HTMLSelectElement[]} */ (all(this.root, "[data-axis]"));
  }

  /** @param {any} chart */
  listenToBrushes(chart) {
    chart.on("axisareaselected", () => {
      if (!this.columns) return;
      const brushes = brushesOf(chart, this.columns);
      this.isBrushed = brushes.length > 0;
      this.show("[data-clear-brushes]", this.isBrushed);
      apply(this.root, brushes);
    });
  }

  /** A point leads to its trial's run. @param {any} chart */
  listenToClicks(chart) {
    chart.on("click", (/** @type {{value: unknown}} */ { value }) => {
      const number = Array.isArray(value) ? value.at(-1) : undefined;
      const at = this.columns?.number.indexOf(number) ?? -1;
      const run = this.columns?.run[at];
      if (run) location.assign((this.root.dataset.runUrl ?? "").replace("RUN-ID", run));
      else if (at < 0 && number !== undefined) location.assign(`${this.root.dataset.trialsUrl}${number}/`);
    });
  }

  /** @param {MouseEvent} event */
  onClick(event) {
    const over = around(event, "[data-over]");
    if (over) this.switchOver(over);
    if (around(event, "[data-clear-brushes]")) this.clearBrushes();
  }

  /** @param {HTMLElement} button */
  switchOver(button) {
    this.over = button.dataset.over === "compute" ? "compute" : "trials";
    for (const one of all(this.root, "[data-over]")) one.setAttribute("aria-pressed", String(one === button));
    this.boards.best?.again();
  }

  clearBrushes() {
    this.isBrushed = false;
    this.show("[data-clear-brushes]", false);
    this.boards.parallel?.again();
    apply(this.root, []);
  }

  /** @param {Event} event */
  onChange(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    if (target.dataset.axis === undefined) return;
    target.dataset.isChosen = "yes";
    this.fetchSurface();
  }
}

/** Of a long sweep some trials are drawn, and all are counted. @param {Sweeps.Columns} columns */
function thinnedWords({ number, total }) {
  if (number.length >= total) return "";
  const words = "the best ones, both ends of each field, and an even choice of the rest.";
  return `${count(number.length)} of ${count(total)} trials are drawn: ${words}`;
}

/** @param {Sweeps.Columns} columns */
function savedWords({ slots: { saved, share, pruned, unknown } }) {
  if (!pruned || share === null) return "";
  const words = `Pruning saved ${slotHours(saved)}, ${percent(share)} of the whole`;
  return unknown ? `${words}; ${unknown} pruned before a step was measured` : words;
}

/** @param {number} seconds */
function slotHours(seconds) {
  return seconds < 0.1 * HOURS ? `${duration(seconds)} of slots` : `${(seconds / HOURS).toFixed(1)} slot-hours`;
}

/** @param {Sweeps.Importance} found */
function interactionWords({ fields, interactions }) {
  return fields.length && interactions > 0.05 ? `${percent(interactions)} is explained by fields together only.` : "";
}

/** @param {string} url */
async function ask(url) {
  try {
    const answer = await fetch(url, { headers: { "X-Requested-With": "fetch" } });
    if (answer.ok) return await answer.json();
    const words = await answer.json().catch(() => ({}));
    if (words.sentence) toast(words.sentence, { isProblem: true });
  } catch {
    // The server is away; the lamp shows it, and the next message repeats the request.
  }
  return null;
}
