// Asks the server about one run's log, with the filters of the moment. Says what is wrong where a person looks.
export class Api {
  // onTrouble("" | "away" | "gone" | a sentence)
  constructor(base, filters, onTrouble) {
    this.base = base;
    this.filters = filters;
    this.onTrouble = onTrouble;
    this.trouble = "";
  }
  url(path, parameters = {}) {
    const query = new URLSearchParams(this.filters());
    for (const [name, value] of Object.entries(parameters))
      if (value !== "" && value !== undefined) query.set(name, value);
    return `${this.base}/logs${path}?${query}`;
  }
  // The answer, or null: it was given up, or refused, or did not come. `missing` is what a 404 stands for where it is
  // no trouble.
  /** @param {string} path @param {object} [parameters] @param {{signal?: AbortSignal, missing?: any}} [options] */
  async get(path, parameters, { signal, missing } = {}) {
    if (this.trouble === "gone") return null;
    const answer = await fetch(this.url(path, parameters), { signal }).catch(() => null);
    if (signal?.aborted) return null;
    if (!answer || answer.status >= 500 || answer.status === 429) return this.setTrouble("away");
    if (answer.status === 404) {
      if (missing === undefined || (await this.isGone())) return this.setTrouble("gone");
      this.setTrouble("");
      return missing;
    }
    const body = await answer.json().catch(() => null);
    if (!answer.ok) return this.refused(answer.status, body);
    this.setTrouble("");
    return body;
  }
  refused(status, body) {
    this.reason = body?.errors?.[0]?.message ?? body?.detail ?? `The server answered ${status}.`;
    return this.setTrouble(status === 422 ? "" : this.reason);
  }
  // A line or an error that is not there, or the whole run?
  async isGone() {
    const answer = await fetch(this.url("/window", { start: 0, limit: 1 })).catch(() => null);
    return answer?.status === 404;
  }
  setTrouble(trouble) {
    if (this.trouble === trouble) return null;
    this.trouble = trouble;
    this.onTrouble(trouble);
    return null;
  }
}
