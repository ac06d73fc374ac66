// One chart's card: title, value, legend, plot, and the tools that show on hover and focus.
import { seriesToken } from "./colours.js";
import { count, duration, formatOf } from "./format.js";
import { build } from "./lines.js";
import { Plot } from "./plot.js";
import { toast } from "./toasts.js";

const LEGEND_LIMIT = 32;

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
    while (this.legend.children.length > Math.min(keys.length, LEGEND_LIMIT)) this.legend.lastChild.remove();
    keys.slice(0, LEGEND_LIMIT).forEach((key, at) => {
      const item = this.legend.children[at] ?? this.legend.appendChild(legendItem());
      item.firstChild.className = `dot ${seriesToken(this.context.indexOf(key))}`;
      item.children[1].textContent = labelOf(lines.get(key).labels);
      item.children[2].textContent = this.format(values.get(key));
      item.title = item.children[3].textContent = this.extent(key);
    });
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
      this.plot?.plot?.ctx.canvas.toBlob((blob) => save(blob, `${this.name.replaceAll("/", "-")}.png`));
    } else if (tool === "csv") {
      save(new Blob([this.csv()], { type: "text/csv" }), `${this.name.replaceAll("/", "-")}.csv`);
    }
  }

  csv() {
    const rows = ["labels,attempt,step,time,value"];
    for (const { labels, parts } of this.context.store.loaded.get(this.name)?.lines.values() ?? []) {
      const words = quoted(labelOf(labels));
      for (const [attempt, part] of parts) {
        part.step.forEach((step, at) => rows.push(`${words},${attempt},${step},${part.time[at]},${part.value[at]}`));
      }
    }
    if (rows.length === 1) toast("There are no points yet.");
    return rows.join("\n");
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

export function labelOf(labels) {
  return Object.entries(labels).map(([name, value]) => (name === "node" ? value : `${name} ${value}`)).join(" ") || "all";
}

// A cell that a spreadsheet takes for text, whatever a label holds.
function quoted(text) {
  return `"${(/^[=+\-@\t\r]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
}

function legendItem() {
  const item = document.createElement("li");
  item.append(document.createElement("i"), document.createElement("span"), document.createElement("b"), document.createElement("small"));
  return item;
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
