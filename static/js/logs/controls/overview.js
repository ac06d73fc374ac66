// Counts of the whole log: the facets, the number of errors, the map beside the scroll bar.
import { labelOf } from "../address.js";

const PAUSE_MS = 3000; // between two while the log grows

export class Overview {
  constructor({ element, view, panel, facets, map }) {
    this.view = view;
    this.panel = panel;
    this.facets = facets;
    this.map = map;
    this.number = 0;
    this.timer = 0;
    const attempts = JSON.parse(element.querySelector("#log-attempts").textContent);
    facets.numbers = new Map(attempts.map(({ fence, number }) => [String(fence), number]));
  }
  async load() {
    clearTimeout(this.timer);
    this.timer = 0;
    const mine = (this.number += 1);
    const answer = await this.view.api.get("/overview");
    if (mine === this.number && answer) this.show(answer);
  }
  grown() {
    this.timer ||= setTimeout(() => this.load(), PAUSE_MS);
  }
  show({ total, levels, ranks, streams, attempts, labels, marks }) {
    const { state } = this.view;
    const label = labelOf(state);
    this.facets.show(
      { level: levels, rank: ranks, stream: streams, attempt: attempts, label: labels },
      { ...state, label: label ? [label] : [] },
    );
    this.panel.showErrors(levels.error ?? 0, state.rank.length > 0 || state.stream.length > 0);
    this.map.canvas.hidden = !marks?.length;
    this.map.show(marks ?? [], total);
    this.look();
  }
  // Which part of the log is in view.
  look() {
    const { scroller, blocks, isSearching } = this.view;
    this.map.canvas.classList.toggle("is-idle", isSearching);
    if (isSearching || !blocks.total) return this.map.look(0, 0);
    this.map.look(scroller.top / blocks.total, Math.min(1, (scroller.top + scroller.inView) / blocks.total));
  }
  close() {
    clearTimeout(this.timer);
    this.number += 1;
  }
}
