// The cards: one per metric, drawn while in view, their points forgotten when many others were looked at since.
const MARGIN = "240px"; // beyond the screen: drawn before one gets there
const REMEMBERED = 40; // metrics whose points are held
const NARROWEST = 280;
const GAP = 12;

export class Deck {
  // host: where the sections lie; make(name) -> card; isHeld(name): somebody looks at it elsewhere
  constructor(host, { make, store, isHeld }) {
    Object.assign(this, { host, make, store, isHeld });
    this.cards = new Map();
    this.shown = new Set(); // names
    this.resting = new Set(); // names that were shown, the longest unseen first
    this.watcher = new IntersectionObserver((entries) => entries.forEach((entry) => this.see(entry)), { rootMargin: MARGIN });
    this.sizer = new ResizeObserver(([entry]) => this.fit(entry.contentRect.width));
    this.sizer.observe(host);
  }

  element(name) {
    if (!this.cards.has(name)) this.add(name);
    return this.cards.get(name).element;
  }

  add(name) {
    const card = this.make(name);
    card.element.dataset.name = name;
    this.cards.set(name, card);
    this.watcher.observe(card.element);
  }

  // Without those that are not in names.
  keep(names) {
    for (const [name, card] of this.cards) {
      if (names.has(name)) continue;
      this.watcher.unobserve(card.element);
      this.rest(name);
      card.close();
      card.element.remove();
      this.cards.delete(name);
    }
  }

  see({ target, isIntersecting }) {
    const name = target.dataset.name;
    const card = this.cards.get(name);
    if (!card) return;
    if (isIntersecting) {
      this.resting.delete(name);
      this.shown.add(name);
      card.show();
    } else {
      this.rest(name);
      card.hide();
    }
  }

  rest(name) {
    if (!this.shown.delete(name)) return;
    this.resting.delete(name);
    this.resting.add(name);
    for (const one of this.resting) {
      if (this.shown.size + this.resting.size <= REMEMBERED) break;
      if (this.isHeld(one)) continue;
      this.resting.delete(one);
      this.store.forget(one);
    }
  }

  // In the order of the page.
  ordered() {
    const names = [...this.host.querySelectorAll(".chart-card")].map((element) => element.dataset.name);
    return new Map(names.filter((name) => this.cards.has(name)).map((name) => [name, this.cards.get(name)]));
  }

  // As many columns as there is room for: the stylesheet lets no card be wider than they are.
  fit(width) {
    if (width) this.host.style.setProperty("--columns", Math.max(1, Math.floor((width + GAP) / (NARROWEST + GAP))));
  }

  close() {
    this.watcher.disconnect();
    this.sizer.disconnect();
    for (const card of this.cards.values()) card.close();
  }
}
