// What the server has of a run's media. An item never changes, so those that were read last are kept.
const KEPT = 24;

export class Gone extends Error {}

export class Media {
  constructor(base) {
    this.base = base;
    this.kept = new Map(); // id -> promise of the whole item, oldest first
  }

  async list() {
    const items = [];
    let next = null;
    do {
      const page = await this.get(next ? `?cursor=${encodeURIComponent(next)}` : "");
      items.push(...page.items);
      next = page.next;
    } while (next);
    return items;
  }

  steps({ name, labels }, attempts) {
    return this.get(`/steps?${query({ name, labels, attempts })}`);
  }

  histograms({ name, labels }, steps) {
    return this.get(`/histograms?${query({ name, labels, steps })}`);
  }

  item(id) {
    const known = this.kept.get(id) ?? this.get(`/${encodeURIComponent(id)}`);
    this.kept.delete(id);
    this.kept.set(id, known);
    known.catch(() => this.kept.delete(id));
    if (this.kept.size > KEPT) this.kept.delete(this.kept.keys().next().value);
    return known;
  }

  file(id) {
    return `${this.base}/${encodeURIComponent(id)}/file`;
  }

  async get(path) {
    const answer = await fetch(this.base + path, { headers: { Accept: "application/json" } });
    if (answer.status === 404 || answer.status === 403) throw new Gone(path);
    if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
    return answer.json();
  }
}

const query = ({ labels, ...rest }) => new URLSearchParams({ ...rest, labels: JSON.stringify(labels ?? {}) });
