// What stands around the lines: how far the search is, the buttons' states, notes, and what is wrong.
import { put } from "../../shared/dom.js";
import { count } from "../../shared/format.js";
import { labelOf } from "../address.js";

const PAUSE_MS = 3000; // between two overviews while the log grows

// Counts of the whole log: the facets, the number of errors, the map beside the scroll bar.
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

const TROUBLES = {
  away: "The server does not answer. What is here stays; the page tries again by itself.",
  gone: "This run was deleted. Only what is on this page is left of its log.",
};

export class Panel {
  constructor(element) {
    const of = (name) => element.querySelector(`[data-${name}]`);
    this.element = element;
    this.found = of("found");
    this.steps = of("steps");
    this.errors = of("errors");
    this.trouble = of("trouble");
    this.note = of("note");
    this.more = of("new");
    this.download = of("download");
    this.form = element.querySelector("form");
  }
  show(view) {
    const { state, hits } = view;
    for (const flag of ["case", "regex"]) this.press(`[data-flag=${flag}]`, state[flag]);
    this.press("[data-do=follow]:not([data-new])", view.isFollowing && !view.isSearching);
    this.press("[data-do=wrap]", state.wrap);
    this.press("[data-do=place]", !view.isSearching);
    if (this.form.elements.clock.value !== state.clock) this.form.elements.clock.value = state.clock;
    this.form.elements.q.setAttribute("aria-invalid", Boolean(hits.problem));
    this.found.classList.toggle("is-problem", Boolean(hits.problem));
    put(this.found, state.q ? hits.problem || progress(view) : "");
    this.steps.hidden = !state.q || !hits.total;
    this.download.href = view.api.url("/download");
    this.more.hidden = view.isFollowing || view.isSearching || view.numNew === 0;
    put(this.more.lastElementChild, `${count(view.numNew)} new ${view.numNew === 1 ? "line" : "lines"}`);
    put(this.note, note(view));
    this.note.hidden = !this.note.textContent;
    put(this.trouble, TROUBLES[view.api.trouble] ?? view.api.trouble);
    this.trouble.hidden = !view.api.trouble;
    view.lines.setAttribute("aria-rowcount", view.source.total || -1);
  }
  showErrors(number, isFiltered) {
    put(this.errors, number ? "First error" : isFiltered ? "No errors here" : "No errors");
    put(this.errors.nextElementSibling, number ? count(number) : "");
    this.errors.parentElement.disabled = !number;
    this.errors.parentElement.classList.toggle("has-errors", number > 0);
  }
  press(selector, isPressed) {
    this.element.querySelector(selector).setAttribute("aria-pressed", isPressed);
  }
}

function progress({ hits, selection, isSearching }) {
  const number = `${count(hits.total)} ${hits.total === 1 ? "hit" : "hits"}`;
  if (!hits.isOver)
    return hits.numLines ? `${number}, ${count(hits.numScanned)} of ${count(hits.numLines)} lines` : "Searching…";
  return isSearching && selection.index >= 0 ? `${count(selection.index + 1)} of ${number}` : number;
}

function note(view) {
  if (view.isSearching) {
    if (view.hits.total || view.hits.problem || !view.hits.isOver) return "";
    return view.state.regex ? "No line matches this pattern." : "No line holds these words.";
  }
  if (!view.blocks.isKnown || view.blocks.total) return "";
  const isFiltered = ["rank", "stream", "level", "attempt"].some((kind) => view.state[kind].length);
  return isFiltered ? "No line is left by these filters." : "No line yet: what the ranks print appears here at once.";
}
