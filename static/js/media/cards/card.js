// One name with its labels: the view of what stands at the chosen step, and what is loaded for it.
import { age, count } from "../../shared/format.js";
import { Gone } from "../api.js";
import { HistogramView } from "../histograms/histogram.js";
import { arranged, standingAt } from "../steps.js";
import { AudioView, VideoView } from "../views/audio.js";
import { ImageView } from "../views/image.js";
import { TableView } from "../views/table.js";
import { TextView } from "../views/text.js";

const RETRY_MS = 3000;
const SLOW_MS = 200;

export class Card {
  // context: {media, template, attempts() -> newest or all, step() -> of all cards (null: the newest) or undefined,
  // onStep(step, card), onSteps(), onOpen(card), onGone()}
  constructor(item, context) {
    this.item = item;
    this.context = context;
    this.entries = [];
    this.index = -1;
    this.chosen = null;
    this.picked = null;
    this.view = null;
    this.asked = 0;
    this.timer = 0;
    this.kept = {}; // how a person set the view, while it is out of sight
    this.label = [item.name.slice(0, 80), ...Object.values(item.labels)].join(" ");
    this.element = context.template.content.firstElementChild.cloneNode(true);
    this.element.setAttribute("aria-label", this.label);
    this.body = this.element.querySelector(".media-body");
    this.caption = new Caption(this.element.querySelector(".media-caption"), this.body);
    this.title();
    this.element.querySelector(".media-labels").textContent = Object.entries(item.labels)
      .map(([name, value]) => `${name} ${value}`)
      .join(", ");
    this.foot = new Foot(this.element, this.label, (index) => this.choose(index));
    this.element.addEventListener("click", (event) => this.onTool(event.target.closest("[data-tool]")?.dataset.tool));
  }

  // Without its section's name, which stands above it.
  title(words = this.item.name.replace(/^[^/]*\/(?=.)/, "")) {
    const title = this.element.querySelector("h3");
    title.textContent = words;
    title.title = this.item.name;
  }

  show() {
    if (this.view) return;
    const View = VIEWS[this.item.kind] ?? TextView;
    this.view = new View(this.body, {
      label: this.label,
      media: this.context.media,
      item: this.item,
      kept: this.kept,
      switches: this.element.querySelector("[data-views]"),
      onOpen: () => this.context.onOpen(this),
      onRead: (text) => this.caption.read(text),
      onPick: (step) => this.pick(step),
    });
    this.load();
  }

  hide() {
    if (!this.view || this.element.closest("dialog")) return;
    clearTimeout(this.timer);
    this.asked += 1;
    this.picked = null;
    this.view.close();
    this.view = null;
  }

  // The list says that there is more.
  grow(item) {
    this.item = item;
    if (!this.view) return;
    this.load();
    this.view.grow?.();
  }

  async load() {
    const mine = ++this.asked;
    clearTimeout(this.timer);
    try {
      const { items } = await this.context.media.steps(this.item, this.context.attempts());
      if (mine !== this.asked) return;
      this.entries = arranged(items.filter(({ kind }) => kind === this.item.kind));
      this.foot.setEntries(this.entries);
      this.context.onSteps();
      if (this.picked === null || !this.entries.length) this.follow();
      else this.pick(this.picked);
    } catch (error) {
      if (mine === this.asked) this.fail(error, () => this.load());
    }
  }

  // Goes to the step of all cards, to its own, or to the newest.
  follow() {
    const all = this.context.step();
    if (all !== undefined) this.chosen = null;
    if (typeof all === "number") return this.place(standingAt(this.entries, all));
    const own = this.entries.findIndex(({ id }) => id === this.chosen);
    return this.place(own < 0 ? this.entries.length - 1 : own);
  }

  // A drawing may show its steps before the card knows them: what is picked there then is gone to once it does.
  pick(step) {
    this.picked = this.entries.length ? null : step;
    this.choose(standingAt(this.entries, step));
  }

  choose(index) {
    const entry = this.entries[Math.max(0, Math.min(this.entries.length - 1, index))];
    if (!entry) return;
    this.chosen = entry === this.entries.at(-1) ? null : entry.id; // the newest stays the newest
    this.place(this.entries.indexOf(entry));
    this.context.onStep(this.chosen === null ? null : entry.step, this);
  }

  async place(index) {
    const mine = (this.placed = {});
    const entry = this.entries[index];
    this.index = index;
    this.foot.show(index);
    this.element.classList.toggle("is-nothing", !entry);
    this.element.querySelector("[data-tool=download]").disabled = !entry;
    if (!entry || !this.view) return;
    const slow = setTimeout(() => this.body.setAttribute("aria-busy", "true"), SLOW_MS);
    try {
      const whole = this.view.isFile ? null : await this.context.media.item(entry.id);
      if (mine !== this.placed || !this.view) return;
      this.whole = whole;
      this.caption.set(this.view.show(entry, whole));
      this.element.dataset.shown = entry.step; // the foot shows it before it has come
      if (this.view.reading?.()) this.caption.read(this.view.reading());
      this.prefetch(index);
    } catch (error) {
      if (mine === this.placed && this.view) this.fail(error, () => this.place(this.index));
    } finally {
      clearTimeout(slow);
      if (mine === this.placed) this.body.removeAttribute("aria-busy");
    }
  }

  prefetch(index) {
    for (const near of [this.entries[index + 1], this.entries[index - 1]]) {
      if (!near) continue;
      if (this.view.prefetch) this.view.prefetch(near);
      else this.context.media.item(near.id).catch(() => {}); // asked again when it is wanted
    }
  }

  fail(error, again) {
    const isGone = error instanceof Gone;
    this.caption.read(isGone ? "This is no longer here." : "This could not be loaded; it is tried again.");
    clearTimeout(this.timer);
    if (isGone) this.context.onGone();
    else this.timer = setTimeout(again, RETRY_MS);
  }

  onTool(tool) {
    const entry = this.entries[this.index];
    if (tool === "previous") this.choose(this.index - 1);
    if (tool === "next") this.choose(this.index + 1);
    if (tool === "newest") this.choose(this.entries.length - 1);
    if (tool === "open") this.context.onOpen(this);
    if (tool === "download" && entry && this.view) this.view.download(this.item.name, entry, this.whole);
  }
}

// The line under an item: what the crosshair reads, else the item's own words and what we say of it.
class Caption {
  constructor(element, body) {
    this.body = body;
    this.theirs = element.children[0];
    this.ours = element.children[1];
    this.words = {};
  }

  // words: {theirs: a caption that was logged, ours}
  set(words) {
    this.words = words;
    this.read("");
  }

  // For screen readers.
  read(text) {
    this.ours.setAttribute("aria-live", text && this.body.contains(document.activeElement) ? "polite" : "off");
    this.ours.textContent = text || this.words.ours || "";
    this.theirs.textContent = this.theirs.title = (!text && this.words.theirs) || "";
  }
}

// The foot of a card: the slider over what was logged, its neighbours' buttons, and when that was.
class Foot {
  // onGo(index)
  constructor(card, label, onGo) {
    this.entries = [];
    this.index = -1;
    this.slider = card.querySelector(".media-foot input");
    this.words = card.querySelector(".media-at");
    this.buttons = new Map(
      ["previous", "next", "newest"].map((tool) => [tool, card.querySelector(`[data-tool=${tool}]`)]),
    );
    this.slider.setAttribute("aria-label", `Step of ${label}`);
    this.slider.addEventListener("input", () => onGo(Number(this.slider.value)));
  }

  setEntries(entries) {
    this.entries = entries;
    this.slider.max = Math.max(0, entries.length - 1);
    this.slider.disabled = entries.length < 2;
  }

  show(index) {
    const isAtEnd = index >= this.entries.length - 1;
    const entry = this.entries[index];
    const words = entry
      ? this.wordsOf(entry)
      : this.entries.length
        ? `nothing by then; the first is at step ${count(this.entries[0].step)}`
        : "nothing yet";
    this.slider.value = Math.max(0, index);
    this.slider.setAttribute("aria-valuetext", words);
    this.words.textContent = entry ? `${words}, ${age(entry.time * 1000, Date.now())}` : words;
    this.words.title = entry ? new Date(entry.time * 1000).toLocaleString() : "";
    this.buttons.get("previous").disabled = index <= 0;
    this.buttons.get("next").disabled = this.buttons.get("newest").disabled = isAtEnd;
  }

  wordsOf({ step, rank, superseded }) {
    const who = new Set(this.entries.map((one) => one.rank)).size > 1 ? `, rank ${rank}` : "";
    return `step ${count(step)}${who}${superseded ? ", an older attempt" : ""}`;
  }
}

// The view of each kind of media. A view has show(entry, whole) -> words for the caption, download(name, entry, whole),
// close(), and where it needs them prefetch(entry), grow() and reading(). One that `isFile` shows media.file(entry.id),
// and the whole item is not read for it.
const VIEWS = {
  histogram: HistogramView,
  image: ImageView,
  text: TextView,
  table: TableView,
  audio: AudioView,
  video: VideoView,
};
