// Keeps how a person looks at a project's charts on the server, a moment after they changed it; says how that went.
import { stateFor, toKeep } from "./state.js";

const SETTLE_MS = 1000;
const AGAIN_MS = 15_000;

export class Saving {
  // url: null where there is no project to keep it for; raw: as the server has it, for all pages; report("kept" |
  // "failed", words): for a quiet place on the page.
  constructor(url, page, raw, report) {
    this.url = url;
    this.document = (state) => JSON.stringify(toKeep(page, raw, state));
    this.kept = this.document(stateFor(page, raw));
    this.report = report;
    this.wanted = null;
    this.timer = 0;
    this.number = 0; // of the request
    this.flush = () => this.wanted !== null && this.put({ keepalive: true });
    addEventListener("pagehide", this.flush);
  }

  later(state) {
    const wanted = this.document(state);
    clearTimeout(this.timer);
    this.wanted = wanted === this.kept || !this.url ? null : wanted;
    if (this.wanted !== null) this.timer = setTimeout(() => this.put(), SETTLE_MS);
  }

  async put(options = {}) {
    clearTimeout(this.timer);
    const wanted = this.wanted;
    this.wanted = null;
    const mine = (this.number += 1);
    try {
      const answer = await putState(this.url, wanted, options);
      if (!answer.ok) return this.report("failed", answer.status === 422 ? "too much to keep" : "not kept");
      this.kept = wanted;
      this.report("kept", "kept for you");
    } catch {
      if (mine !== this.number) return; // what was changed since is on its way, or has arrived
      this.report("failed", "not kept yet");
      this.wanted ??= wanted; // unless it was changed meanwhile
      this.timer = setTimeout(() => this.wanted !== null && this.put(), AGAIN_MS);
    }
  }

  close() {
    removeEventListener("pagehide", this.flush);
    if (this.wanted !== null) this.put({ keepalive: true });
  }
}

// state: as JSON.
export function putState(url, state, options = {}) {
  const token = /** @type {HTMLMetaElement} */ (document.querySelector("meta[name=csrf-token]")).content;
  const headers = { "Content-Type": "application/json", "X-CSRFToken": token };
  return fetch(url, { method: "PUT", headers, body: `{"state":${state}}`, ...options });
}
