// Cards in sections by the prefix of their names; which are folded is kept in this browser.
import { order } from "../shared/dom.js";
import { store, stored } from "../shared/stored.js";

const KEPT = "trainyard.media.folded";

const prefixOf = (name) => (name.includes("/") ? name.slice(0, name.indexOf("/")) : "others");

// Names by their section, those without one last, then as people count.
export function byPlace(a, b) {
  const { compare } = new Intl.Collator("en", { numeric: true });
  return a.name.includes("/") === b.name.includes("/")
    ? compare(a.name, b.name) || compare(a.key, b.key)
    : a.name.includes("/")
      ? -1
      : 1;
}

export class Sections {
  constructor(host, template) {
    this.host = host;
    this.template = template;
    this.all = new Map();
  }

  // cards: [{name, key, element}] in their order.
  arrange(cards) {
    const grids = Map.groupBy(cards, ({ name }) => prefixOf(name));
    for (const [prefix, section] of this.all) {
      if (grids.has(prefix)) continue;
      section.remove();
      this.all.delete(prefix);
    }
    const sections = [...grids].map(([prefix, own]) => {
      const section = this.all.get(prefix) ?? this.make(prefix);
      section.querySelector(".count").textContent = own.length;
      const elements = own.map(({ element }) => element).filter((one) => !one.closest("dialog"));
      order(section.querySelector(".media-grid"), elements);
      return section;
    });
    order(this.host, sections);
  }

  make(prefix) {
    const section = this.template.content.firstElementChild.cloneNode(true);
    section.querySelector("h2").textContent = prefix;
    section.open = !folded().includes(prefix);
    section.addEventListener("toggle", () => {
      const others = folded().filter((one) => one !== prefix);
      store("localStorage", KEPT, section.open ? others : [...others, prefix].slice(-200));
    });
    this.all.set(prefix, section);
    return section;
  }
}

function folded() {
  const kept = stored("localStorage", KEPT);
  return Array.isArray(kept) ? kept : [];
}
