// Cards in sections by the prefix of their names; which are folded is kept in this browser.
const KEPT = "trainyard.media.folded";

function prefixOf(name) {
  return name.includes("/") ? name.slice(0, name.indexOf("/")) : "others";
}

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
    const grids = new Map();
    for (const { name, element } of cards) {
      const prefix = prefixOf(name);
      if (!grids.has(prefix)) grids.set(prefix, []);
      grids.get(prefix).push(element);
    }
    for (const [prefix, section] of this.all) {
      if (grids.has(prefix)) continue;
      section.remove();
      this.all.delete(prefix);
    }
    let at = null;
    for (const [prefix, elements] of grids) {
      const section = this.all.get(prefix) ?? this.make(prefix);
      section.querySelector(".count").textContent = elements.length;
      inOrder(section.querySelector(".media-grid"), elements);
      const next = at ? at.nextElementSibling : this.host.firstElementChild;
      if (next !== section) this.host.insertBefore(section, next);
      at = section;
    }
  }

  make(prefix) {
    const section = this.template.content.firstElementChild.cloneNode(true);
    section.querySelector("h2").textContent = prefix;
    section.open = !folded().includes(prefix);
    section.addEventListener("toggle", () => {
      const others = folded().filter((one) => one !== prefix);
      localStorage.setItem(KEPT, JSON.stringify(section.open ? others : [...others, prefix].slice(-200)));
    });
    this.all.set(prefix, section);
    return section;
  }
}

// Moves only what is elsewhere, so that what has the focus keeps it.
function inOrder(host, elements) {
  elements.forEach((element, at) => {
    if (element.closest("dialog")) return;
    if (host.children[at] !== element) host.insertBefore(element, host.children[at] ?? null);
  });
}

function folded() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEPT) ?? "[]");
    return Array.isArray(kept) ? kept : [];
  } catch {
    return [];
  }
}
