// The Charts tab: sections by prefix, a card per metric, only those in view drawn, one set of switches for all.
import { Card, axisOf } from "./card.js";
import { Zoom } from "./zoom.js";
import { SeriesStore } from "./series.js";

const ORDER = ["train", "val", "rank", "system"];
const FIRST = ["train", "val"]; // one section, so that the first glance has both losses side by side
const KEPT = "trainyard.charts";
const MIN_DRAW_MS = 120;

export function mount(element) {
  const host = element.querySelector("[data-sections]");
  const empty = element.querySelector("[data-empty]");
  const controls = element.querySelector("form");
  const template = element.querySelector("template");
  const cards = new Map();
  const dirty = new Set();
  let indexes = new Map();
  let frame = 0;
  let drawnAt = 0;

  const store = new SeriesStore(element.dataset.api, { onNames: arrange, onData: want });
  const zoom = new Zoom(store, want);
  const context = {
    store,
    zoom,
    onZoom: (range, axis) => zoom.set(range, { axis, start: Number(element.dataset.start), isAlong: (name) => axisOf(name, settings().axis) === axis }),
    template,
    group: element.dataset.api,
    start: Number(element.dataset.start),
    indexOf: (key) => indexes.get(key) ?? 0,
    settings,
  };
  const watcher = new IntersectionObserver(
    (entries) => entries.forEach(({ target, isIntersecting }) => (isIntersecting ? cards.get(target.dataset.name).show() : cards.get(target.dataset.name).hide())),
    { rootMargin: "240px" },
  );

  function settings() {
    return {
      axis: controls.elements.axis.value,
      smoothing: Number(controls.elements.smoothing.value),
      isLog: controls.elements.log.checked,
    };
  }
  function arrange() {
    indexes = indexed(store.names);
    const names = [...store.names.keys()].filter(matcher()).sort(byPlace);
    empty.hidden = store.names.size > 0;
    for (const [name, card] of cards) if (!names.includes(name)) remove(name, card);
    for (const name of names) {
      const section = sectionOf(name);
      const card = cards.get(name) ?? add(name);
      if (card.element.parentElement !== section) section.append(card.element);
    }
    for (const section of host.querySelectorAll("details")) {
      const shown = section.querySelectorAll(".chart-card").length;
      section.hidden = shown === 0;
      section.querySelector(".count").textContent = shown;
      if (section.dataset.prefix === FIRST[0]) section.querySelector("h2").textContent = FIRST.filter((one) => names.some((name) => name.startsWith(`${one}/`))).join(" & ");
    }
    element.querySelector("[data-no-match]").hidden = names.length > 0 || store.names.size === 0;
  }
  function add(name) {
    const card = new Card(name, context);
    card.element.dataset.name = name;
    cards.set(name, card);
    watcher.observe(card.element);
    return card;
  }
  function remove(name, card) {
    watcher.unobserve(card.element);
    card.hide();
    card.element.remove();
    cards.delete(name);
  }
  function sectionOf(name) {
    const own = name.includes("/") ? name.slice(0, name.indexOf("/")) : "others";
    const prefix = FIRST.includes(own) ? FIRST[0] : own;
    let section = [...host.children].find((one) => one.dataset.prefix === prefix);
    if (!section) {
      section = element.querySelectorAll("template")[1].content.firstElementChild.cloneNode(true);
      section.dataset.prefix = prefix;
      section.querySelector("h2").textContent = prefix;
      section.querySelector("[data-by-time]").hidden = prefix !== "system";
      const after = [...host.children].find((one) => byPlace(`${one.dataset.prefix}/`, `${prefix}/`) > 0);
      host.insertBefore(section, after ?? null);
    }
    return section.querySelector(".chart-grid");
  }
  function matcher() {
    const words = controls.elements.filter.value.trim();
    if (!words) return () => true;
    try {
      const pattern = new RegExp(words, "i");
      return (name) => pattern.test(name);
    } catch {
      return (name) => name.toLowerCase().includes(words.toLowerCase());
    }
  }
  function want(name) {
    dirty.add(name);
    if (!frame) frame = setTimeout(() => requestAnimationFrame(draw), Math.max(0, drawnAt + MIN_DRAW_MS - performance.now()));
  }
  function draw() {
    frame = 0;
    drawnAt = performance.now();
    for (const name of dirty) cards.get(name)?.draw();
    dirty.clear();
  }
  function redrawAll() {
    element.querySelector("output").textContent = controls.elements.smoothing.value;
    localStorage.setItem(KEPT, JSON.stringify(settings()));
    for (const card of cards.values()) if (card.plot && store.loaded.has(card.name)) card.draw();
  }
  function onTheme() {
    for (const card of cards.values()) card.plot?.repaint();
    for (const card of cards.values()) card.last && card.showValues(card.last);
  }
  function onKey(event) {
    if (event.key !== "Escape") return;
    for (const card of cards.values()) if (card.element.classList.contains("is-expanded")) card.onTool("expand");
  }

  restore(controls);
  element.querySelector("output").textContent = controls.elements.smoothing.value;
  controls.addEventListener("submit", (event) => event.preventDefault());
  controls.addEventListener("input", (event) => (event.target.name === "filter" ? arrange() : redrawAll()));
  addEventListener("themechange", onTheme);
  document.addEventListener("keydown", onKey);
  store.list().catch(() => setTimeout(() => store.list(), 3000));
  return () => {
    store.close();
    watcher.disconnect();
    cards.forEach((card) => card.hide());
    removeEventListener("themechange", onTheme);
    document.removeEventListener("keydown", onKey);
  };
}

// A colour per label set, counted among those of the same kind: rank 0 is the first colour in every chart and in the logs.
function indexed(names) {
  const kinds = new Map();
  for (const known of names.values()) {
    for (const [key, labels] of known) {
      const kind = Object.keys(labels).sort().join();
      if (!kinds.has(kind)) kinds.set(kind, new Set());
      kinds.get(kind).add(key);
    }
  }
  const { compare } = new Intl.Collator("en", { numeric: true });
  return new Map([...kinds.values()].flatMap((keys) => [...keys].sort(compare).map((key, at) => [key, at])));
}

function restore(controls) {
  try {
    const kept = JSON.parse(localStorage.getItem(KEPT) ?? "{}");
    if (kept.axis) controls.elements.axis.value = kept.axis;
    if (kept.smoothing !== undefined) controls.elements.smoothing.value = kept.smoothing;
    controls.elements.log.checked = Boolean(kept.isLog);
  } catch {
    localStorage.removeItem(KEPT);
  }
}

function byPlace(a, b) {
  const place = (name) => {
    const at = FIRST.includes(name.split("/")[0]) ? 0 : ORDER.indexOf(name.split("/")[0]);
    return name.startsWith("others/") ? ORDER.length + 1 : at < 0 ? ORDER.length : at;
  };
  const which = (name) => FIRST.indexOf(name.split("/")[0]);
  return place(a) - place(b) || headline(a) - headline(b) || which(a) - which(b) || a.localeCompare(b, "en", { numeric: true });
}

// Within a section what people look at first comes first.
function headline(name) {
  const rest = name.slice(name.indexOf("/") + 1);
  const at = ["loss", "accuracy", "perplexity", "tokens_per_second", "samples_per_second"].indexOf(rest);
  return at < 0 ? 9 : at;
}
