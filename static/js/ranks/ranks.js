// The heat map of a run's ranks over its steps: a row for each rank, a column for each step or several.
import { getJson } from "../charts/data/columns.js";
import { listen } from "../charts/interaction/gestures.js";
import { within, zoomed } from "../charts/scales/views.js";
import { on } from "../live/live.js";
import { Plot } from "../media/histograms/plot.js";
import { colour, faded, seriesColour } from "../shared/colours.js";
import { count, seconds } from "../shared/format.js";
import { keepZoom, keptZoom } from "../shared/zoom.js";
import { cellAt, extentOf, labelledRows, numColumns, scaleOf, shadesOf, wordsOf } from "./cells.js";

const ROW_PX = 18;
const [LEAST_PX, MOST_PX] = [96, 520];
const LABEL_PX = 12;
const MOST_COLUMNS = 1200;
const EVERY_MS = 2000;
const LEAST_STEPS = 4; // in view
const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const SERIES = 1; // the colour of the cells

export function mount(element) {
  const heat = new RankHeat(element);
  return () => heat.close();
}

class RankHeat {
  constructor(element) {
    this.element = element;
    this.grid = null;
    this.cell = null;
    this.chosen = null;
    this.timer = 0;
    this.asked = 0;
    this.lastAt = 0;
    this.range = keptZoom(element.dataset.run);
    this.host = element.querySelector("[data-plot]");
    this.said = element.querySelector("[data-said]");
    this.phase = element.querySelector("select");
    this.whole = element.querySelector("[data-whole]");
    this.plot = new Plot(this.host, {
      label: "Heat map of ranks and steps; the arrow keys read it, plus and minus zoom, 0 shows all",
      tickX: (value) => (Number.isInteger(value) ? count(value) : ""),
      tickY: () => "",
      paint: () => this.paint(),
      mark: () => this.mark(),
      onPoint: (x, y) => this.grid && this.read(cellAt(this.grid, x, y)),
      onLeave: () => this.read(null),
      onKey: (key) => this.onKey(key),
    });
    this.plot.canvas.classList.add("rank-heat-plot");
    this.over = new AbortController();
    this.listen();
    this.load();
  }

  listen() {
    const { signal } = this.over;
    this.phase.addEventListener("change", () => this.load(), { signal });
    this.whole.addEventListener("click", () => this.zoom(null), { signal });
    this.stop = on("points", () => this.later());
    listen(this.plot.canvas, {
      hover: () => {},
      leave: () => this.read(null),
      choose: (from, to) => {
        this.chosen = from === null ? null : [from, to];
        this.plot.mark();
      },
      chosen: (from, to) => this.zoom([this.stepAt(from), this.stepAt(to)]),
      pan: (pixels) => this.pan(pixels / this.plot.width),
      settle: () => {},
      zoom: (left, factor) => this.zoom(zoomed(this.plot.x, this.stepAt(left), factor)),
      reset: () => this.zoom(null),
    });
  }

  stepAt(left) {
    const { plot } = this;
    const [from, to] = plot.x;
    return from + ((left - plot.left(from)) / plot.width) * (to - from);
  }

  // null: all steps. What is known is moved at once; finer columns come.
  zoom(range) {
    const whole = this.bounds ?? this.plot.x;
    this.range = range && within([Math.floor(range[0]), Math.ceil(range[1])], whole, LEAST_STEPS);
    keepZoom(this.element.dataset.run, this.range);
    this.load();
  }

  pan(share) {
    if (!this.range) return;
    const by = share * (this.range[1] - this.range[0]);
    this.zoom([this.range[0] + by, this.range[1] + by]);
  }

  later() {
    if (this.timer || document.hidden) return;
    this.timer = setTimeout(() => this.load(), Math.max(0, this.lastAt + EVERY_MS - Date.now()));
  }

  async load() {
    clearTimeout(this.timer);
    this.timer = 0;
    this.lastAt = Date.now();
    const asked = (this.asked += 1);
    const width = Math.floor(this.plot.width || this.element.clientWidth || 600);
    const columns = Math.max(40, Math.min(MOST_COLUMNS, width));
    const query = new URLSearchParams({ phase: this.phase.value, columns: String(columns) });
    if (this.range) {
      query.set("from", String(Math.floor(this.range[0])));
      query.set("to", String(Math.ceil(this.range[1])));
    }
    // Where no answer comes, the next message of the stream asks again.
    const grid = await getJson(`${this.element.dataset.api}?${query}`, this.over.signal).catch(() => null);
    if (grid && asked === this.asked) this.show(grid);
  }

  show(grid) {
    if (!grid.ranks.length && this.range && !this.grid) return this.zoom(null); // what was kept is not of these steps
    if (!grid.ranks.length) return;
    this.grid = grid;
    if (!this.range) this.bounds = extentOf(grid);
    if (this.cell) this.cell = { row: Math.min(this.cell.row, grid.ranks.length - 1), column: this.within(this.cell) };
    this.element.hidden = false;
    this.whole.hidden = !this.range;
    this.host.style.height = `${Math.max(LEAST_PX, Math.min(MOST_PX, grid.ranks.length * ROW_PX + 46))}px`;
    this.scale = scaleOf(grid);
    this.picture = null;
    this.plot.show(extentOf(grid), [grid.ranks.length, 0]);
    this.say();
  }

  within({ column }) {
    return Math.max(0, Math.min(numColumns(this.grid) - 1, column));
  }

  read(cell) {
    this.cell = cell;
    this.plot.mark();
    this.say();
  }

  say() {
    const words = this.grid && this.cell ? wordsOf(this.grid, this.cell) : this.element.dataset.hint;
    if (this.said.textContent !== words) this.said.textContent = words;
  }

  onKey(key) {
    if (!this.grid) return false;
    const [from, to] = this.plot.x;
    const middle = this.cell ? this.grid.first_step + this.cell.column * this.grid.width : (from + to) / 2;
    if (key === "+" || key === "=") this.zoom(zoomed(this.plot.x, middle, 0.5));
    else if (key === "-") this.zoom(zoomed(this.plot.x, middle, 2));
    else if (key === "0") this.zoom(null);
    else if (key === "[" || key === "]") this.pan(key === "[" ? -0.25 : 0.25);
    else if (key === "Home" || key === "End")
      this.read({ row: this.cell?.row ?? 0, column: key === "Home" ? 0 : numColumns(this.grid) - 1 });
    else if (MOVES[key]) this.step(...MOVES[key]);
    else return false;
    return true;
  }

  step(columns, rows) {
    const { column, row } = this.cell ?? { column: numColumns(this.grid) - 1 - columns, row: -rows };
    this.read({
      column: this.within({ column: column + columns }),
      row: Math.max(0, Math.min(this.grid.ranks.length - 1, row + rows)),
    });
  }

  paint() {
    if (!this.grid || !numColumns(this.grid)) return;
    const { plot, grid } = this;
    const { pen } = plot;
    const [from, to] = extentOf(grid).map((step) => plot.left(step));
    const [top, bottom] = [plot.top(0), plot.top(grid.ranks.length)];
    pen.imageSmoothingEnabled = false;
    pen.drawImage(this.drawn(), from, top, to - from, bottom - top);
    pen.fillStyle = colour("faint");
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    const height = (bottom - top) / grid.ranks.length;
    for (const row of labelledRows(grid.ranks.length, bottom - top, LABEL_PX))
      pen.fillText(`rank ${grid.ranks[row].rank}`, plot.left(plot.x[0]) - 6, top + (row + 0.5) * height);
    const shades = Array.from({ length: 64 }, (_, at) => faded(seriesColour(SERIES), (20 + (235 * at) / 64) / 255));
    plot.legend(shades, seconds(this.scale.low / 1e6), seconds(this.scale.high / 1e6));
  }

  // A pixel for each cell.
  drawn() {
    const theme = seriesColour(SERIES);
    if (this.picture?.theme === theme) return this.picture.canvas;
    const { grid } = this;
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [numColumns(grid), grid.ranks.length];
    const pen = canvas.getContext("2d");
    const image = pen.createImageData(canvas.width, canvas.height);
    const [red, green, blue] = theme.match(/[\d.]+/g).map(Number);
    shadesOf(grid, this.scale).forEach((shade, at) => {
      if (shade < 0) return;
      image.data.set([red, green, blue, 20 + (shade * 235) / 255], 4 * at);
    });
    pen.putImageData(image, 0, 0);
    this.picture = { theme, canvas };
    return canvas;
  }

  mark() {
    if (!this.grid) return;
    const { plot, grid } = this;
    if (this.chosen) {
      plot.pen.fillStyle = faded(colour("accent"), 0.2);
      plot.pen.fillRect(Math.min(...this.chosen), plot.top(0), Math.abs(this.chosen[1] - this.chosen[0]), plot.height);
    }
    if (!this.cell) return;
    const { column, row } = this.cell;
    const step = grid.first_step + column * grid.width;
    plot.upright(step + grid.width / 2, colour("muted"), [3, 3]);
    plot.box([plot.left(step), plot.left(step + grid.width)], [plot.top(row), plot.top(row + 1)]);
  }

  close() {
    this.over.abort();
    clearTimeout(this.timer);
    this.stop();
    this.plot.close();
  }
}
