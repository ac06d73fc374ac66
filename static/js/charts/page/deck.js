// The cards: one per metric, a light one until it comes into view, drawn while it is there; the points of metrics that
// nobody looked at for long are forgotten.
const MARGIN = "240px"; // beyond the screen: drawn before one gets there
const REMEMBERED = 40; // metrics whose points are held
const NARROWEST = 280;
const GAP = 12;

export class Deck {
  // host: where the sections lie; options: {template: of a light card, make(name) -> card, store, isHeld(name): whether
  // somebody looks at it elsewhere, sizeOf(name) -> {columns, height}, titleOf(name) -> text}
  constructor(host, options) {
    this.host = host;
    this.options = options;
    this.places = new Map(); // name -> element
    this.cards = new Map(); // those that were in view
    this.shown = new Set(); // names
    this.resting = new Set(); // names that were shown, the longest unseen first
    this.watcher = new IntersectionObserver((entries) => entries.forEach((entry) => this.see(entry)), {
      rootMargin: MARGIN,
    });
    this.sizer = new ResizeObserver(([entry]) => this.fit(entry.contentRect.width));
    this.sizer.observe(host);
  }

  element(name) {
    if (!this.places.has(name)) this.put(name, this.light(name));
    return this.places.get(name);
  }

  put(name, element) {
    element.dataset.name = name;
    this.places.set(name, element);
    this.watcher.observe(element);
  }

  // Two hundred whole cards are twenty thousand nodes; this is where one will be, with its title.
  light(name) {
    const { template, sizeOf, titleOf } = this.options;
    const element = template.content.firstElementChild.cloneNode(true);
    const { columns, height } = sizeOf(name);
    element.querySelector("h3").textContent = titleOf(name);
    element.setAttribute("aria-label", name);
    element.dataset.columns = columns;
    if (height) element.querySelector(".chart-plot").style.setProperty("--plot-height", `${height}px`);
    element.chart = { points: () => [] };
    return element;
  }

  // The card itself, from now on in the place of the light one.
  card(name) {
    if (!this.cards.has(name)) {
      const card = this.options.make(name);
      const light = this.element(name);
      this.cards.set(name, card);
      this.watcher.unobserve(light);
      light.replaceWith(card.element);
      this.put(name, card.element);
    }
    return this.cards.get(name);
  }

  // Without those that are not in names.
  keep(names) {
    for (const name of this.places.keys()) if (!names.has(name)) this.drop(name);
  }

  drop(name) {
    const element = this.places.get(name);
    if (!element) return;
    this.watcher.unobserve(element);
    this.rest(name);
    this.cards.get(name)?.close();
    element.remove();
    this.cards.delete(name);
    this.places.delete(name);
  }

  see({ target, isIntersecting }) {
    const name = target.dataset.name;
    if (this.places.get(name) !== target) return;
    if (isIntersecting) {
      this.resting.delete(name);
      this.shown.add(name);
      this.card(name).show();
    } else {
      this.rest(name);
      this.cards.get(name)?.hide();
    }
  }

  rest(name) {
    if (!this.shown.delete(name)) return;
    this.resting.delete(name);
    this.resting.add(name);
    for (const one of this.resting) {
      if (this.shown.size + this.resting.size <= REMEMBERED) break;
      if (this.options.isHeld(one)) continue;
      this.resting.delete(one);
      this.options.store.forget(one);
    }
  }

  // In the order of the page, for going from card to card.
  ordered() {
    const names = [...this.host.querySelectorAll(".chart-card")].map((element) => element.dataset.name);
    return { keys: () => names.values(), get: (name) => (this.places.has(name) ? this.card(name) : undefined) };
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
