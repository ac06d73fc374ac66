// Histograms: all steps as a heat map, or the one of the step as bars.

import { csv } from "../views/rows.js";
import { fileName, saveText } from "../views/save.js";
import { Bars } from "./bars.js";
import { Heat } from "./heat.js";
import { summary } from "./reading.js";

const COLUMNS = 200; // of the heat map

export class HistogramView {
  // context: {label, media, item, switches, kept, onRead(text), onPick(step)}
  constructor(host, context) {
    this.host = host;
    this.context = context;
    this.drawing = null;
    this.entry = null;
    this.whole = null;
    this.mode = context.kept.mode ?? (context.item.count > 1 ? "steps" : "one");
    this.onSwitch = (event) => event.target.dataset.view && this.turn((context.kept.mode = event.target.dataset.view));
    context.switches.hidden = false;
    context.switches.addEventListener("click", this.onSwitch);
    this.turn(this.mode);
  }

  turn(mode) {
    this.mode = mode;
    for (const button of this.context.switches.children)
      button.setAttribute("aria-pressed", String(button.dataset.view === mode));
    this.drawing?.plot.close();
    this.drawing = mode === "steps" ? new Heat(this.host, this.context) : new Bars(this.host, this.context);
    if (mode === "steps") this.grow();
    if (this.whole) this.show(this.entry, this.whole);
  }

  show(entry, whole) {
    this.entry = entry;
    this.whole = whole;
    if (this.drawing instanceof Heat) this.drawing.choose(entry.step);
    else this.drawing.show(whole.histogram);
    return { ours: summary(whole.histogram, whole.meta) };
  }

  reading() {
    return this.drawing.reading();
  }

  // There are more steps than there were. A failure shows in the next one: the card asks again by itself.
  async grow() {
    const { drawing } = this;
    if (this.mode !== "steps") return;
    const data = await this.context.media.histograms(this.context.item, COLUMNS).catch(() => null);
    if (data && drawing === this.drawing) drawing.show(data);
  }

  download(name, entry, { histogram: { edges, counts } }) {
    const rows = counts.map((value, at) => [edges[at], edges[at + 1], value]);
    saveText(csv(["from", "to", "count"], rows), fileName(name, entry.step, "csv"), "text/csv");
  }

  close() {
    this.context.switches.removeEventListener("click", this.onSwitch);
    this.context.switches.hidden = true;
    this.drawing.plot.close();
  }
}
