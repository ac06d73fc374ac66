// Sections of charts by the prefix of their names, those that are pinned before all, and the order of what is in them;
// a person's layout (settings/state.js) goes before that.
import { order } from "../../shared/dom.js";
import { EMPTY_LAYOUT } from "../settings/state.js";

export const OWN = "/own/"; // begins the key of a section that a person made: no prefix of a name has a slash
const PANELS = "/panels";
const ORDER = ["train", "rank", null, "others", "system"]; // null: all that people named themselves
const FIRST = ["train", "val"]; // one section, so that the first glance has both losses side by side
const LOOKED_AT = ["loss", "accuracy", "perplexity", "tokens_per_second", "samples_per_second"];
const PINNED = "pinned ★"; // no prefix of a name: a series called pinned/… has a section of its own
const MANY = 2000; // names
export const MORE = 120; // charts at a time, where there are more than a page lays out
const { compare } = new Intl.Collator("en", { numeric: true });

// Pure: [{prefix, title, names, isFixed}] in the order in which they are shown. names: of series, and keys of panels.
export function planned(names, pinned, layout = EMPTY_LAYOUT) {
  const { panels } = layout;
  const shown = new Set(names);
  const places = new Map(layout.sections.flatMap(({ key, names: own }) => own.map((name) => [name, key])));
  const keyOf = (name) => places.get(name) ?? (Object.hasOwn(panels, name) ? PANELS : prefixOf(name));
  const top = pinned.filter((name) => shown.has(name));
  const isTop = new Set(top);
  const found = new Map();
  const section = (prefix) => {
    if (!found.has(prefix)) found.set(prefix, { prefix, title: prefix === PANELS ? "Panels" : prefix, names: [] });
    return found.get(prefix);
  };
  for (const name of names) if (!isTop.has(name)) section(keyOf(name)).names.push(name);
  for (const one of found.values()) one.names = inOrder(one.names);
  const sections = new Map();
  for (const { key, title, names: own } of layout.sections) {
    if (!found.has(key) && !key.startsWith(OWN)) continue;
    const one = section(key);
    const places = new Map(own.map((name, at) => [name, at]));
    one.names.sort((a, b) => (places.get(a) ?? own.length) - (places.get(b) ?? own.length));
    sections.set(key, Object.assign(one, title && { title }));
  }
  const others = [...found].filter(([key]) => !sections.has(key));
  for (const [key, one] of others.sort(([a, one], [b, two]) => bySection(a, one.names[0], b, two.names[0])))
    sections.set(key, one);
  const first = sections.get(FIRST[0]);
  if (first?.title === FIRST[0])
    first.title = FIRST.filter((one) => first.names.some((name) => name.startsWith(`${one}/`))).join(" & ");
  return [
    ...(top.length ? [{ prefix: PINNED, title: "Pinned", names: top, isFixed: true }] : []),
    ...sections.values(),
  ];
}

function bySection(a, nameOfA, b, nameOfB) {
  const byPanels = Number(b === PANELS) - Number(a === PANELS); // before all that is of names
  return byPanels || place(nameOfA) - place(nameOfB) || compare(prefixOf(nameOfA), prefixOf(nameOfB));
}

// The names of a section; of very many numbers in them are read as letters, for the sake of speed.
function inOrder(names) {
  const byName = names.length > MANY ? (a, b) => (a < b ? -1 : 1) : compare;
  return names
    .map((name) => ({ name, rank: 100 * place(name) + 10 * headline(name) + own(name) }))
    .sort((a, b) => a.rank - b.rank || byName(a.name, b.name))
    .map(({ name }) => name);
}

// Pure: the plan with `cards`, those of its names that are laid out: as many as a page has room for, in their order,
// and of a section at least as many as somebody asked for.
export function cut(plan, most, asked) {
  let room = most;
  return plan.map((section) => {
    const num = Math.min(section.names.length, Math.max(room, asked.get(section.prefix) ?? 0));
    room = Math.max(0, room - num);
    return { ...section, cards: section.names.slice(0, num) };
  });
}

// Lays the cards into their sections; what stands right already is not touched.
export function lay(host, template, plan, { collapsed, axis, isPartial, elementOf }) {
  const focused = host.contains(document.activeElement) ? document.activeElement : null;
  const isByKeys = focused?.matches(":focus-visible");
  const old = new Map([...host.children].map((section) => [section.dataset.prefix, section]));
  const sections = plan.map(({ prefix }) => old.get(prefix) ?? made(template, prefix));
  order(host, sections);
  plan.forEach(({ prefix, title, names, cards = names }, at) => {
    const section = sections[at];
    section.querySelector("h2").textContent = title;
    section.querySelector(".count").textContent = isPartial ? "" : names.length; // there may be others
    section.querySelector("[data-by-time]").hidden = prefix !== "system" || axis !== "step";
    section.classList.toggle("is-own", prefix.startsWith(OWN));
    const isOpen = !collapsed.includes(prefix);
    if (section.open !== isOpen) section.open = isOpen;
    order(section.querySelector(".chart-grid"), cards.map(elementOf));
    const more = section.querySelector('[data-section="more"]');
    more.hidden = cards.length === names.length;
    const of = isPartial ? "" : ` of ${names.length}`;
    more.textContent = `Show ${Math.min(MORE, names.length - cards.length)} more${of}`;
  });
  for (const section of old.values()) if (!sections.includes(section)) section.remove();
  // A card that moved takes the focus along; the page follows only those who use keys.
  if (focused?.isConnected && document.activeElement !== focused)
    /** @type {HTMLElement} */ (focused).focus({ preventScroll: !isByKeys });
}

function made(template, prefix) {
  const section = template.content.firstElementChild.cloneNode(true);
  section.dataset.prefix = prefix;
  return section;
}

function prefixOf(name) {
  const first = name.includes("/") ? name.slice(0, name.indexOf("/")) : "others";
  return FIRST.includes(first) ? FIRST[0] : first;
}

function place(name) {
  const at = ORDER.indexOf(prefixOf(name));
  return at < 0 ? ORDER.indexOf(null) : at;
}

// Within a section what people look at first comes first.
function headline(name) {
  const at = LOOKED_AT.indexOf(name.slice(name.indexOf("/") + 1));
  return at < 0 ? LOOKED_AT.length : at;
}

const own = (name) => FIRST.indexOf(name.split("/")[0]);
