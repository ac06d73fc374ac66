// What a card says beside its lines: its head and legend, the crosshair with its values, which line is lit, and where
// attempts began.
import { put } from "../../shared/dom.js";
import { whyEmpty } from "./emptiness.js";
import { Flags } from "./flags.js";
import { Legend } from "./legend.js";
import { ends, readAt, rowsOf, spoken, spread, summary, trends } from "./readout.js";
import { Values } from "./values.js";

const NEAR_PX = 6; // of a restart's line, for the crosshair to say it

export class Reader {
  constructor(card) {
    this.card = card;
    this.rows = [];
    this.x = null; // of the crosshair
    this.reading = null;
    const part = (selector) => card.element.querySelector(selector);
    this.value = part(".chart-value");
    this.spread = part(".chart-spread");
    this.nothing = part(".chart-nothing");
    this.legendHost = part(".chart-legend");
    this.legend = new Legend(this.legendHost, {
      sort: (by) => this.sortBy(by),
      light: (line) => card.context.crosshair.light(line),
    });
    this.values = new Values(part(".chart-values"));
    this.flags = new Flags((mark) => this.sentenceOf(mark));
  }

  // After the card was built anew.
  show() {
    const { built, context, settings, format, axis } = this.card;
    const { labelOf, crosshair } = context;
    const colourOf = (key) => this.card.colourOf(key);
    this.rows = rowsOf(built, { colourOf, labelOf, sort: settings.sort, format, axis });
    const why = context.problemOf(this.card.name) || whyEmpty(this.rows, built.bad.length, settings.isLogY);
    this.card.element.classList.toggle("is-empty", why !== "");
    const isBare = !built.bad.length && !this.rows.some(({ order }) => Number.isFinite(order.min));
    this.card.element.classList.toggle("is-bare", isBare);
    put(this.nothing, why);
    const hasLegend = this.rows.length > 1 || Boolean(this.rows[0]?.reach);
    this.legendHost.hidden = !hasLegend;
    if (hasLegend) this.legend.show(this.rows, settings.sort);
    this.card.host.setAttribute("aria-label", `Plot of ${this.card.title}: ${trends(built, this.rows, format)}`);
    if (this.values.isShown) this.values.show(this.card);
    if (crosshair.line) this.shine(crosshair.line);
    this.point(this.x, crosshair.source === this.card);
    this.card.pointing.announceAgain();
  }

  // The lines as a table below the plot, or no longer.
  toggleValues() {
    this.values.host.hidden = this.values.isShown;
    if (this.values.isShown && this.card.built && this.card.plot?.frame) this.values.show(this.card);
    return this.values.isShown;
  }

  // After the plot moved.
  place() {
    const { plot } = this.card;
    if (!plot?.frame) return;
    this.flags.show(plot.frame.over, plot);
    this.point(this.x, false);
  }

  // The crosshair is at x, or nowhere. Where the hand is, it snaps to a point.
  point(x, isSource) {
    const { plot, built, axis, format, pointing } = this.card;
    this.x = x;
    if (!plot?.frame || !built || built !== plot.built) return;
    const isIn = x !== null && built.x.length > 0 && x >= plot.range[0] && x <= plot.range[1];
    pointing.place = isIn ? plot.placeOf(x) : null;
    this.reading = isIn ? readAt(built, pointing.place, axis, format) : null;
    pointing.overlay.place(isIn ? plot.toLeft(isSource ? this.reading.x : x) : null, isIn ? this.dots() : []);
    this.showValues();
  }

  dots() {
    const { plot, context } = this.card;
    const lit = context.crosshair.line?.key;
    return [...this.reading.values].map(([key, { x, value }]) => ({
      left: plot.toLeft(x),
      top: plot.toTop(value),
      colour: this.card.colourOf(key),
      isLit: key === lit,
    }));
  }

  showValues() {
    const { rows, reading } = this;
    const only = rows.length === 1 ? rows[0] : null;
    const at = only && reading?.values.get(only.key);
    const value = !only ? "" : reading ? (reading.texts.get(only.key) ?? "–") : only.value;
    put(this.value, [reading && wordOf(this.markAt()), reading?.where, value].filter(Boolean).join("  ·  "));
    this.showSpread(at);
    this.value.title = only ? ends(only) : "";
    if (rows.length > 1) this.legend.values(reading?.texts ?? new Map(rows.map(({ key, value: last }) => [key, last])));
  }

  // What a bucket reaches; of several lines what the lit one has, whose row may be far down.
  showSpread(at) {
    const { reading, rows } = this;
    const { format, context } = this.card;
    const lit = rows.length > 1 && reading ? rows.find(({ key }) => key === context.crosshair.line?.key) : null;
    const value = lit ? reading.values.get(lit.key) : at;
    const words = [lit && `${lit.label}  ${format(value?.value)}`, value && spread(value, format)];
    put(this.spread, words.filter(Boolean).join("  ·  "));
  }

  // The line is lit where it is; where it is not, the lines of its run are; where there are none, nothing changes.
  shine(line) {
    if (this.rows.length < 2) return this.card.plot?.light(null);
    const isOf = ({ runs }) => runs.some((run) => line.runs.includes(run));
    const here = !line
      ? []
      : this.rows.some(({ key }) => key === line.key)
        ? [line.key]
        : this.rows.filter(isOf).map(({ key }) => key);
    const isLit = here.length && here.length < this.rows.length ? (key) => here.includes(key) : null;
    this.card.plot?.light(isLit);
    this.legend.shine(isLit);
    this.showSpread();
  }

  markAt() {
    const { plot, built } = this.card;
    const left = plot.toLeft(this.reading.x);
    return built.marks.find(({ x }) => Math.abs(plot.toLeft(x) - left) < NEAR_PX);
  }

  sentenceOf({ run, attempt, sentence }) {
    if (sentence) return sentence;
    return this.card.context.causeOf(run, attempt)?.sentence ?? `Attempt ${attempt} began here.`;
  }

  // For screen readers.
  spoken() {
    if (!this.reading) return summary(this.rows);
    const mark = this.markAt();
    return spoken(this.reading, this.rows, this.card.context.crosshair.line?.key, mark ? this.sentenceOf(mark) : "");
  }

  sortBy(by) {
    const { sort } = this.card.settings;
    this.card.context.changeAll({ sort: { by, isDescending: sort.by === by ? !sort.isDescending : by !== "name" } });
  }
}

function wordOf(mark) {
  return mark ? ({ alarm: "broke a rule", undefined: "restarted here" }[mark.kind] ?? mark.sentence) : "";
}
