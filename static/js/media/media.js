// The Media tab: sections by prefix, a card per name and labels, one filter and one step for all.
import { keyOf } from "../charts/data/names.js";
import { on } from "../live/live.js";
import { say } from "../shared/dom.js";
import { count } from "../shared/format.js";
import { Gone, Media } from "./api.js";
import { Card } from "./cards/card.js";
import { byPlace, Sections } from "./sections.js";
import { union } from "./steps.js";

const MIN_MS = 1000; // between two lists
const RETRY_MS = 3000;

export function mount(element) {
  const form = element.querySelector("form");
  const find = (name) => element.querySelector(`[data-${name}]`);
  const template = (name) => element.querySelector(`[data-template=${name}]`);
  const media = new Media(element.dataset.api);
  const sections = new Sections(find("sections"), template("section"));
  const full = new Fullscreen(element.querySelector("dialog"));
  const cards = new Map(); // key -> Card
  /** @type {WeakMap<Element, Card>} */
  const cardOf = new WeakMap();
  const linked = new Linked(form, onLinked);
  const context = {
    media,
    template: template("card"),
    attempts: () => (form.elements.older.checked ? "all" : "newest"),
    step: () => (linked.isOn ? linked.step : undefined),
    onStep: (step, card) => linked.isOn && linked.go(step, card),
    onSteps: knowSteps,
    onOpen: (card) => full.toggle(card),
    onGone: () => want(),
  };
  const watcher = new IntersectionObserver((entries) => entries.forEach(see), { rootMargin: "240px" });
  let timer = 0;
  let listedAt = 0;
  let isGone = false;

  function see({ target, isIntersecting }) {
    if (isIntersecting) cardOf.get(target)?.show();
    else cardOf.get(target)?.hide();
  }
  async function list() {
    timer = 0;
    listedAt = Date.now();
    try {
      arrive(await media.list());
      say(find("trouble"), "");
    } catch (error) {
      isGone = error instanceof Gone;
      const gone = "This run is no longer here: it was deleted, or you may not see it any more.";
      say(find("trouble"), isGone ? gone : "What there is could not be read; it is tried again.");
      if (!isGone) want(RETRY_MS);
    }
  }
  function want(wait = 0) {
    if (!timer && !isGone) timer = setTimeout(list, Math.max(wait, listedAt + MIN_MS - Date.now()));
  }
  function arrive(items) {
    for (const item of items) {
      const key = `${item.name} ${item.kind} ${keyOf(item.labels)}`;
      const card = cards.get(key);
      if (!card) add(key, item);
      else if (card.item.count !== item.count || card.item.last_step !== item.last_step) card.grow(item);
    }
    arrange();
    knowSteps();
  }
  function add(key, item) {
    const card = new Card(item, context);
    cardOf.set(card.element, card);
    cards.set(key, card);
    watcher.observe(card.element);
  }
  function arrange() {
    const words = form.elements.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = ({ item }) => words.every((word) => item.name.toLowerCase().includes(word));
    const shown = [...cards]
      .filter(([, card]) => fits(card))
      .map(([key, card]) => ({ key, name: card.item.name, element: card.element }));
    const kept = new Set(shown.map(({ element: one }) => one));
    for (const card of cards.values()) if (!kept.has(card.element)) card.element.remove();
    sections.arrange(shown.sort(byPlace));
    find("empty").hidden = cards.size > 0;
    find("no-match").hidden = shown.length > 0 || cards.size === 0;
  }
  function knowSteps() {
    const stepsOf = ({ item, entries }) => [item.first_step, item.last_step, ...entries.map(({ step }) => step)];
    linked.setLists([...cards.values()].map(stepsOf));
  }
  function onLinked(who) {
    for (const card of cards.values()) if (card !== who) card.follow();
    remember();
  }
  function remember() {
    const query = new URLSearchParams();
    const filter = form.elements.filter.value.trim();
    if (filter) query.set("filter", filter);
    if (linked.isOn) query.set("step", linked.step ?? "");
    if (form.elements.older.checked) query.set("older", "1");
    history.replaceState(history.state, "", location.pathname + (query.size ? `?${query}` : ""));
  }
  function onInput({ target }) {
    if (target.name === "filter") arrange();
    if (target.name === "older") for (const card of cards.values()) card.view && card.load();
    if (target.name !== "step") remember();
  }

  // What is looked at, in the page's address: `?filter=words&step=120&older=1`; a step means that all cards are at it.
  const query = new URLSearchParams(location.search);
  form.elements.filter.value = query.get("filter") ?? "";
  form.elements.older.checked = query.get("older") === "1";
  const step = Number(query.get("step"));
  if (query.has("step")) linked.turn(true, query.get("step") && Number.isSafeInteger(step) ? step : null);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", onInput);
  const stops = ["run", "refetch", "again"].map((type) => on(type, () => want()));
  list();
  return () => {
    clearTimeout(timer);
    watcher.disconnect();
    stops.forEach((stop) => stop());
    for (const card of cards.values()) card.hide();
  };
}

// The slider of all cards. While it is on, each card shows what stands at its step; at its end, the newest.
class Linked {
  constructor(form, onChange) {
    this.button = form.querySelector("[data-link]");
    this.slider = form.elements.step;
    this.words = form.querySelector("[data-all-at]");
    this.steps = [];
    this.isOn = false;
    this.step = null; // null: the newest
    this.onChange = onChange;
    this.button.addEventListener("click", () => this.turn(!this.isOn));
    this.slider.addEventListener("input", () =>
      this.go(Number(this.slider.value) >= this.steps.length - 1 ? null : this.steps[this.slider.value]),
    );
  }

  turn(isOn, step = null) {
    this.isOn = isOn;
    this.slider.hidden = !isOn;
    this.button.setAttribute("aria-pressed", String(isOn));
    this.go(isOn ? step : null);
  }

  // `who` is there already.
  go(step, who = null) {
    this.step = step;
    this.paint();
    this.onChange(who);
  }

  // lists: the steps of each card.
  setLists(lists) {
    this.steps = union(lists);
    this.paint();
  }

  paint() {
    const at = this.step === null ? this.steps.length - 1 : this.steps.findLastIndex((one) => one <= this.step);
    this.slider.max = Math.max(0, this.steps.length - 1);
    this.slider.value = Math.max(0, at);
    const words = this.step === null ? "newest" : `step ${count(this.step)}`;
    this.words.textContent = this.isOn ? words : "";
    this.slider.setAttribute("aria-valuetext", words);
  }
}

// One card in a dialog that fills the window: Left and Right go to the neighbouring step, Escape closes.
class Fullscreen {
  constructor(dialog) {
    this.dialog = dialog;
    this.card = null;
    this.place = document.createComment("");
    dialog.addEventListener("close", () => this.onClose());
    dialog.addEventListener("keydown", (event) => this.onKey(event));
  }

  toggle(card) {
    if (this.card) return this.dialog.close();
    this.card = card;
    card.element.before(this.place);
    this.dialog.append(card.element);
    this.dialog.setAttribute("aria-label", card.label);
    this.label("Close the full screen");
    card.title(card.item.name);
    this.dialog.showModal();
    this.button().focus();
  }

  onClose() {
    if (!this.card) return;
    this.label("Full screen");
    this.card.title();
    this.place.replaceWith(this.card.element);
    this.button().focus();
    this.card = null;
  }

  onKey(event) {
    if (event.target.matches("input, canvas") || event.ctrlKey || event.metaKey || event.altKey) return;
    const tool = { ArrowLeft: "previous", ArrowRight: "next" }[event.key];
    if (!tool || !this.card) return;
    event.preventDefault();
    this.card.onTool(tool);
  }

  button() {
    return this.card.element.querySelector("[data-tool=open]");
  }

  label(words) {
    this.button().setAttribute("aria-label", words);
    this.button().title = words;
  }
}
