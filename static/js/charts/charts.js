// The Charts tab: sections by prefix, a card per metric, only those in view drawn, one set of switches for all.
import { Card, axisOf } from "./card.js";
import { indexed } from "../colours.js";
import { byPlace, label, sectionOf } from "./sections.js";
import { SeriesStore } from "./store.js";
import { Zoom } from "./windows.js";

const KEPT = "trainyard.charts";
const MIN_DRAW_MS = 120;

export function mount(element) {
  const host = element.querySelector("[data-sections]");
  const empty = element.querySelector("[data-empty]");
  const controls = element.querySelector("form");
  const templates = element.querySelectorAll("template"); // of a card, and of a section
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
    template: templates[0],
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
      const section = sectionOf(name, host, templates[1]);
      const card = cards.get(name) ?? add(name);
      if (card.element.parentElement !== section) section.append(card.element);
    }
    label(host, names);
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
