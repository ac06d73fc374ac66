// One chart's card: title, value, legend, plot, and the tools that show on hover and focus.
import { count, duration, formatOf } from "../format.js";
import { showLegend } from "./legend.js";
import { build } from "./build.js";
import { Plot } from "./plot.js";

export class Card {
  // context: {store, zoom, onZoom(range), settings(), indexOf(key), group, start, template}
  constructor(name, context) {
    this.name = name;
    this.context = context;
    this.format = formatOf(name);
    this.isOwnLog = null; // null: as the page's switch says
    this.element = context.template.content.firstElementChild.cloneNode(true);
    this.host = this.element.querySelector(".chart-plot");
    this.legend = this.element.querySelector(".chart-legend");
    this.value = this.element.querySelector(".chart-value");
    const title = this.element.querySelector("h3");
    title.textContent = titleOf(name);
    title.title = name;
    this.element.setAttribute("aria-label", name);
    this.element.chart = this;
    this.element.addEventListener("click", (event) => this.onTool(event.target.closest("[data-tool]")?.dataset.tool));
  }

  show() {
    if (this.plot) return;
    const { group, indexOf } = this.context;
    this.plot = new Plot(this.host, { ...this.options(), group, indexOf, format: this.format, onCursor: (index, plot) => this.onCursor(index, plot), onZoom: (range) => this.context.onZoom(range, this.options().axis) });
    if (this.context.store.loaded.has(this.name)) this.draw();
    else this.context.store.want(this.name);
  }

  hide() {
    if (this.element.classList.contains("is-expanded")) return;
    this.plot?.close();
    this.plot = null;
  }

  options() {
    const { axis, smoothing, isLog } = this.context.settings();
    return { axis: axisOf(this.name, axis), smoothing, isLog: this.isOwnLog ?? isLog };
  }

  draw() {
    if (!this.plot) return;
    const options = this.options();
    Object.assign(this.plot.options, options);
    const built = build(this.context.zoom.entry(this.name), { ...options, start: this.context.start });
    this.element.classList.toggle("is-empty", !built.x.length);
    this.plot.draw(built);
    this.last = built.last;
    this.extremes = built.extremes;
    this.showValues(built.last);
  }

  onCursor(index, plot) {
    if (!this.last) return;
    if (index === null) return this.showValues(this.last);
    const x = plot.built.x[index];
    const where = plot.options.axis === "step" ? `step ${count(x)}` : duration(x);
    this.showValues(plot.at(index), plot.isAtRestart() ? `restarted here, ${where}` : where);
  }

  showValues(values, where = "") {
    const lines = this.context.store.loaded.get(this.name)?.lines ?? new Map();
    const keys = [...lines.keys()].sort((a, b) => this.context.indexOf(a) - this.context.indexOf(b));
    const single = keys.length <= 1;
    this.value.textContent = [where, single ? this.format(values.get(keys[0])) : ""].filter(Boolean).join("  ·  ");
    this.value.title = single ? this.extent(keys[0]) : "";
    this.legend.hidden = single;
    if (single) return;
    const entries = keys.map((key) => ({ colour: this.context.indexOf(key), labels: lines.get(key).labels, value: this.format(values.get(key)), extent: this.extent(key) }));
    showLegend(this.legend, entries);
  }

  extent(key) {
    const found = this.extremes?.get(key);
    return found ? `min ${this.format(found.min)}, max ${this.format(found.max)}` : "";
  }

  onTool(tool) {
    if (tool === "log") {
      this.isOwnLog = !this.options().isLog;
      this.draw();
    } else if (tool === "expand") {
      const isExpanded = this.element.classList.toggle("is-expanded");
      this.element.querySelector("h3").textContent = isExpanded ? this.name : titleOf(this.name);
      document.documentElement.classList.toggle("has-expanded", isExpanded);
      this.plot?.resize();
    } else if (tool === "png") {
      this.plot?.plot?.ctx.canvas.toBlob((blob) => {
        const href = URL.createObjectURL(blob);
        save(href, `${this.name.replaceAll("/", "-")}.png`);
        setTimeout(() => URL.revokeObjectURL(href), 10_000);
      });
    } else if (tool === "csv") {
      save(`${this.context.group}/series.csv?name=${encodeURIComponent(this.name)}`, ""); // every point, named by the server
    }
  }

  // What the chart holds, for who asks from a script: a row for each point, buckets by their mean.
  points() {
    const rows = ({ labels, parts }) => [...parts].flatMap(([attempt, { step, time, value }]) => Array.from(step, (one, at) => ({ labels, attempt, step: one, time: time[at], value: value[at] })));
    return [...(this.context.store.loaded.get(this.name)?.lines.values() ?? [])].flatMap(rows);
  }
}

// Without the section's name; where training and validation share a section, with it.
function titleOf(name) {
  return name.includes("/") && !/^(train|val)\//.test(name) ? name.slice(name.indexOf("/") + 1) : name;
}

// A machine's health has no steps: whatever the switch says, it is drawn over time.
export function axisOf(name, axis) {
  return name.startsWith("system/") ? "time" : axis;
}

function save(href, name) {
  const link = document.createElement("a");
  link.href = href;
  link.download = name;
  link.click();
}
