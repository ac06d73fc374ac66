// Which series a run has: as the server lists them, and as messages bring new ones.

export class Names {
  constructor(api) {
    this.api = api;
    this.all = new Map(); // name -> Map(labels key -> labels)
  }

  // Asks the server; true when there is one that was not known.
  async list() {
    const items = [];
    let next = "";
    do {
      const page = await getJson(`${this.api}/series?limit=1000${next ? `&cursor=${encodeURIComponent(next)}` : ""}`);
      items.push(...page.items);
      next = page.next;
    } while (next);
    let isNew = false;
    for (const { name, labels } of items) isNew = this.know(name, labels) || isNew;
    return isNew;
  }

  know(name, labels) {
    const key = keyOf(labels);
    if (!this.all.has(name)) this.all.set(name, new Map());
    const known = this.all.get(name);
    if (known.has(key)) return false;
    known.set(key, labels ?? {});
    return true;
  }
}

export function keyOf(labels) {
  return JSON.stringify(Object.entries(labels ?? {}).sort(([a], [b]) => (a < b ? -1 : 1)));
}

// As a query asks for them.
export function namesIn(names) {
  return names.map((name) => `name=${encodeURIComponent(name)}`).join("&");
}

async function getJson(url) {
  const answer = await fetch(url, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
  return answer.json();
}
