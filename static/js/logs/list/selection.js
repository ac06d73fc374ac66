// The line that one is at, and the lines up to it that one has chosen. Kept by id: lines that come late move the
// others.
const MOST = 20_000; // lines copied at once
const PAGE = 2000;

export class Selection {
  constructor(onChange) {
    this.onChange = onChange;
    this.clear();
  }
  clear() {
    this.active = this.anchor = null; // {index, id}
    this.onChange();
  }
  get index() {
    return this.active?.index ?? -1;
  }
  get range() {
    if (!this.active) return [0, -1];
    return [this.active.index, this.anchor.index].sort((one, other) => one - other);
  }
  has(index) {
    const [from, to] = this.range;
    return index >= from && index <= to;
  }
  choose(index, id, extends_ = false) {
    this.active = { index, id };
    if (!extends_ || !this.anchor) this.anchor = this.active;
    this.onChange();
  }
  // Lines have moved: the same ones stay chosen.
  follow(source) {
    for (const end of new Set([this.active, this.anchor])) {
      const index = end?.id ? source.indexOf(end.id) : -1;
      if (index >= 0) end.index = index;
    }
  }
  // The lines that are chosen: those that are here, else fetched; null where they did not come.
  async lines(source, api) {
    const [from, last] = this.range;
    const to = Math.min(last, from + MOST - 1);
    const found = [];
    for (let index = from; index <= to; index += 1) {
      const line = source.get(index);
      if (line) {
        found.push(line);
        continue;
      }
      const page = await api.get("/window", { start: index, limit: Math.min(PAGE, to - index + 1) });
      if (!page?.items.length) return null;
      found.push(...page.items);
      index += page.items.length - 1;
    }
    return found;
  }
}
