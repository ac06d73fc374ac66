// Plots over the runs that are compared, drawn by the scripts of sweeps: fetched once the fold is opened. What is
// brushed, by hand or by the fields below the drawing, is shown in the charts and in the list alone.
import { getJson } from "../charts/data/columns.js";
import { all, make, need } from "../shared/dom.js";
import { number } from "../shared/format.js";
import { Boards, load } from "../sweeps/board.js";
import { shown } from "../sweeps/look.js";
import { axesOf, brushesOf, parallel } from "../sweeps/plots/parallel.js";
import { slice } from "../sweeps/plots/scatter.js";
import { withQuery } from "./query.js";

const AGAIN_MS = 1000; // while importance is being computed
const MOST_ROWS = 200;
const PIXELS_AN_AXIS = 90;

/** @param {HTMLDetailsElement} root */
export function mount(root) {
  const plots = new RunPlots(root);
  return () => plots.unmount();
}

class RunPlots extends Boards {
  /** @param {HTMLDetailsElement} root */
  constructor(root) {
    super(root);
    /** @type {Sweeps.RunColumns | null} */
    this.columns = null;
    /** @type {Sweeps.Columns | null} */
    this.drawn = null; // the same with the fields alone that have an axis
    /** @type {Sweeps.Brush[]} */
    this.brushes = [];
    this.timer = 0;
    this.boards.parallel.whenMade((chart) =>
      chart.on("axisareaselected", () => this.drawn && this.brush(brushesOf(chart, this.drawn))),
    );
    this.onToggle = () => root.open && !this.columns && this.fetch();
    this.onChange = this.onChange.bind(this);
    this.onRefetch = () => root.open && this.fetch();
    root.addEventListener("toggle", this.onToggle);
    root.addEventListener("change", this.onChange);
    root.addEventListener("refetch", this.onRefetch);
    need(root, "[data-clear-brushes]").addEventListener("click", () => this.clear());
    this.onToggle();
  }

  unmount() {
    clearTimeout(this.timer);
    for (const board of Object.values(this.boards)) board.end();
  }

  /** @param {Record<string, string | string[]>} [changes] */
  async ask(changes = {}, url = this.root.dataset.columns ?? "") {
    return getJson(`${url}${withQuery(location.search, changes)}`).catch(() => null);
  }

  async fetch() {
    load();
    const [x, y] = this.picks().map((one) => one.value);
    /** @type {Sweeps.RunColumns | null} */
    const found = await this.ask({ axis: [x, y].filter(Boolean) });
    if (!this.root.isConnected) return;
    this.write("trouble", found ? "" : "The plots did not come. Close this part and open it again.");
    if (!found) return;
    const before = this.drawn && axesOf(this.drawn).join();
    const fields = found.fields.filter(({ isAxis }) => isAxis);
    this.columns = found;
    this.drawn = { ...found, fields };
    const hasLines = found.fields.length > 0 && found.objectives[0].values.some((one) => one !== null);
    this.write("nothing", hasLines ? "" : nothingWords(found));
    need(this.root, "[data-plots]").hidden = !hasLines;
    if (!hasLines) return;
    this.offer(found);
    this.grow("parallel", 0, PIXELS_AN_AXIS * (fields.length + 1));
    if (!this.brushes.length || before !== axesOf(this.drawn).join()) {
      const { drawn } = this;
      this.boards.parallel.show(() => parallel(drawn));
      this.drawRanges(fields);
    }
    this.drawScatter();
    this.drawTable();
    this.fetchImportance();
  }

  async fetchImportance() {
    clearTimeout(this.timer);
    /** @type {Sweeps.Importance | null} */
    const found = await this.ask({}, this.root.dataset.importance);
    if (!found || !this.root.isConnected) return;
    if (!found.isCurrent) this.timer = setTimeout(() => this.fetchImportance(), AGAIN_MS);
    if (!found.fields) return;
    if (!this.drawImportance(found, found.sentence, 3)) return;
    const rows = found.fields.map((one) => [
      one.label,
      `${number(one.fanova)} ± ${number(one.fanova_error)}`,
      `${number(one.permutation)} ± ${number(one.permutation_error)}`,
    ]);
    table(need(this.root, "[data-importance-table]"), ["Field", "fANOVA", "permutation"], rows);
  }

  /** @returns {HTMLSelectElement[]} */
  picks() {
    return /** @type {HTMLSelectElement[]} */ (all(this.root, "[data-pick-axis]"));
  }

  /** Fields and metrics to choose from; what was chosen stays. @param {Sweeps.RunColumns} columns */
  offer(columns) {
    const [x, y] = this.picks();
    const metric = columns.objectives[0].metric;
    const [fieldNames, metrics] = [columns.others, columns.metrics.filter((one) => one !== metric)];
    const numeric = columns.fields.filter(({ choices }) => !choices.length).map(({ path }) => path);
    for (const [select, names] of /** @type {[HTMLSelectElement, string[]][]} */ ([
      [x, [...fieldNames, ...metrics]],
      [y, [metric, ...metrics, ...numeric.filter((one) => !metrics.includes(one))]],
    ])) {
      const chosen = select.value;
      select.replaceChildren(...names.map((name) => new Option(name, name)));
      select.value = names.includes(chosen) ? chosen : names[0];
    }
  }

  drawScatter() {
    const columns = this.columns;
    const [x, y] = this.picks().map((one) => one.value);
    if (!columns) return;
    const [objective] = columns.objectives;
    const across = columns.fields.find((one) => one.path === x);
    const up = y === objective.metric ? objective : columns.fields.find((one) => one.path === y);
    if (!across || !up) return; // it is on its way
    const values = /** @type {(number | null)[]} */ (up.values.map((one, at) => (this.fits(at) ? one : null)));
    this.boards.scatter.show(() =>
      slice({ ...columns, objectives: [{ metric: y, direction: objective.direction, values }] }, across),
    );
  }

  /** A pair of numbers or a choice for each axis: the same brush by keyboard. @param {Sweeps.Field[]} fields */
  drawRanges(fields) {
    const { metric } = /** @type {Sweeps.RunColumns} */ (this.columns).objectives[0];
    const axes = [...fields, { path: "value:0", label: metric, choices: /** @type {string[]} */ ([]) }];
    need(this.root, "[data-ranges]").replaceChildren(...axes.map(rangeOf));
  }

  /** @param {Event} event */
  onChange({ target }) {
    const control = /** @type {HTMLInputElement} */ (target);
    if (control.dataset.pickAxis !== undefined) return this.fetch();
    const row = /** @type {HTMLElement | null} */ (control.closest("[data-range]"));
    if (!row) return;
    const places = all(this.root, "[data-range]");
    const intervals = intervalsOf(row);
    const { chart } = this.boards.parallel;
    chart?.dispatchAction({ type: "axisAreaSelect", parallelAxisIndex: places.indexOf(row), intervals });
    this.brush(places.flatMap((one) => brushOf(one)));
  }

  /** @param {Sweeps.Brush[]} brushes */
  brush(brushes) {
    this.brushes = brushes;
    const columns = this.columns;
    if (!columns) return;
    need(this.root, "[data-clear-brushes]").hidden = !brushes.length;
    const runs = columns.run.filter((_, at) => this.fits(at));
    this.write("brushed", brushes.length ? `${runs.length} of ${columns.run.length} runs are chosen.` : "");
    this.drawScatter();
    this.drawTable();
    const detail = { runs: brushes.length ? runs : null };
    this.root.dispatchEvent(new CustomEvent("brushed", { bubbles: true, detail }));
  }

  clear() {
    this.boards.parallel.again();
    const controls = all(this.root, "[data-range] :is(input, select)");
    for (const one of controls) if ("value" in one) one.value = "";
    this.brush([]);
  }

  /** Whether every brush lets the run through. @param {number} at */
  fits(at) {
    const { fields, objectives } = /** @type {Sweeps.RunColumns} */ (this.columns);
    return this.brushes.every(({ axis, ranges, texts }) => {
      const { values } = fields.find(({ path }) => path === axis) ?? objectives[0];
      const value = values[at];
      if (value === null) return false;
      return (
        texts.includes(String(value)) || ranges.some(([low, high]) => Number(value) >= low && Number(value) <= high)
      );
    });
  }

  drawTable() {
    const { fields, objectives, names, run } = /** @type {Sweeps.RunColumns} */ (this.columns);
    const places = run.flatMap((_, at) => (this.fits(at) ? [at] : []));
    const heads = ["Run", objectives[0].metric, ...fields.map(({ label }) => label)];
    const rows = places
      .slice(0, MOST_ROWS)
      .map((at) => [names[at], ...[objectives[0], ...fields].map(({ values }) => shown(values[at]))]);
    table(need(this.root, "[data-table]"), heads, rows);
    this.write("rows", places.length > MOST_ROWS ? `The first ${MOST_ROWS} of ${places.length} runs.` : "");
  }
}

/** @param {Sweeps.RunColumns} columns */
function nothingWords({ fields, objectives, total }) {
  if (total < 2) return "Plots over runs need two runs or more.";
  return fields.length ? `No run has a number of ${objectives[0].metric || "any metric"}.` : "The specs do not differ.";
}

/** @param {Pick<Sweeps.Field, "path" | "label" | "choices">} field */
function rangeOf({ path, label, choices }) {
  const row = make("div", {}, make("span", { className: "clip", textContent: label, title: label }));
  row.dataset.range = path;
  const offered = [new Option("any", ""), ...choices.map((one) => new Option(one, one))];
  if (choices.length) row.append(make("select", { className: "form-select", ariaLabel: `${label} is` }, ...offered));
  else row.append(...["from", "to"].map((word) => boundOf(label, word)));
  return row;
}

/** @param {string} label @param {string} word */
function boundOf(label, word) {
  const looks = { className: "form-control", placeholder: word, ariaLabel: `${label} ${word}` };
  return make("input", { type: "number", step: "any", ...looks });
}

/** @param {HTMLElement} row @returns {Sweeps.Brush[]} */
function brushOf(row) {
  const axis = row.dataset.range ?? "";
  const select = row.querySelector("select");
  if (select) return select.value ? [{ axis, ranges: [], texts: [select.value] }] : [];
  const [from, to] = [...row.querySelectorAll("input")].map((one) => one.value);
  if (!from && !to) return [];
  return [{ axis, ranges: [[from ? Number(from) : -Infinity, to ? Number(to) : Infinity]], texts: [] }];
}

/** As the axis of the drawing has it: a choice by its place. @param {HTMLElement} row @returns {number[][]} */
function intervalsOf(row) {
  const select = row.querySelector("select");
  if (select) return select.value ? [[select.selectedIndex - 1.4, select.selectedIndex - 0.6]] : [];
  return brushOf(row).flatMap(({ ranges }) => ranges);
}

/** @param {HTMLElement} host @param {string[]} heads @param {(string | number)[][]} rows */
function table(host, heads, rows) {
  const made = make("table", { className: "grid-table" });
  const head = made.createTHead().insertRow();
  head.append(...heads.map((textContent) => make("th", { scope: "col", textContent })));
  const body = made.createTBody();
  for (const texts of rows)
    body.insertRow().append(...texts.map((text) => make("td", { dir: "auto", textContent: String(text) })));
  host.replaceChildren(made);
}
