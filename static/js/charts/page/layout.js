// Lays a page's cards into sections: those that fit the filter, as they were pinned and folded; says where there are
// none.

import { count } from "../../shared/format.js";
import { labelColours } from "../data/runs.js";
import { Filter, IS_PLAIN } from "./filter.js";
import { Notes } from "./notes.js";
import { cut, lay, MORE, planned } from "./sections.js";

const MOST_NAMED = 100;
const AGAIN_MS = 3000;
const MOST_CARDS = 240; // a card for each of 20,000 series would take a page seconds

export class Layout {
  // page: the Charts of charts.js
  constructor(page) {
    this.page = page;
    this.notes = new Notes(page.element);
    this.filter = new Filter(page.element.dataset.worker);
    this.template = page.element.querySelector("template.section-template");
    this.isListed = false;
    this.panels = new Map(); // key -> as JSON
    this.asked = new Map(); // prefix -> how many charts of the section somebody wanted to see
  }

  // Of all charts that there are, be they filtered out or not.
  keys() {
    const { store, workspace } = this.page;
    const { panels, removed } = workspace.layout;
    const isRemoved = new Set(removed);
    return [...Object.keys(panels), ...[...store.names.keys()].filter((name) => !isRemoved.has(name))];
  }

  planned(keys) {
    const { state, layout } = this.page.workspace;
    return planned(keys, state.pinned, layout);
  }

  async list() {
    const { store, workspace } = this.page;
    await store.list();
    const { panels, sections } = workspace.layout;
    const ofPanels = Object.keys(panels).flatMap((key) => this.page.panels.namesOf(key));
    const named = [...workspace.state.pinned, ...ofPanels, ...sections.flatMap(({ names }) => names), workspace.open];
    await store.find([...new Set(named.filter(Boolean))].slice(0, MOST_NAMED));
    this.isListed = true;
    await this.arrange(); // where there is nothing, that is to be said, too
  }

  onNames() {
    this.colours = this.titles = null;
    this.arrange();
  }

  // A colour per label set.
  get labelled() {
    return (this.colours ??= labelColours(this.page.store.names));
  }

  async arrange() {
    const { bands, deck, store, workspace, panels } = this.page;
    const words = workspace.state.filter.trim();
    if (store.listing.isPartial && IS_PLAIN.test(words)) await store.find(words);
    if (words !== workspace.state.filter.trim()) return; // asked anew meanwhile
    const { state } = workspace;
    if (this.laidFor !== workspace.layout) this.titles = null;
    this.laidFor = workspace.layout;
    const names = (this.titles ??= this.keys().map((key) => panels.titleOf(key)));
    const keys = new Map(Object.keys(workspace.layout.panels).map((key) => [panels.titleOf(key), key]));
    const ofBands = bands?.names() ?? [];
    const found = await this.filter.ask(state.filter, [...names, ...ofBands]);
    if (!found || this.isOver) return; // asked anew meanwhile
    const fits = new Set(found.fitting);
    bands?.filter(new Set(ofBands.filter((name) => !fits.has(name))));
    const fitting = [...new Set(names.filter((title) => fits.has(title)).map((title) => keys.get(title) ?? title))];
    this.dropChanged();
    const plan = cut(this.planned(fitting), MOST_CARDS, this.asked);
    deck.keep(new Set(plan.flatMap(({ cards }) => cards)));
    const { isUnanswered, listing } = store;
    const { isPartial } = listing;
    lay(deck.host, this.template, plan, { ...state, isPartial, elementOf: (name) => deck.element(name) });
    const [numNames, numFitting] = [names.length, fitting.length];
    const { filter } = state;
    const note = found.note || (listing.isCut(words) ? cutNote(words, numNames) : "");
    this.notes.show({ isListed: this.isListed, isUnanswered, numNames, numFitting, filter, note, isPartial });
    this.page.showToolbar();
    this.reopen();
    clearTimeout(this.again);
    if (isUnanswered) this.again = setTimeout(() => this.arrange(), AGAIN_MS);
  }

  more(prefix, num) {
    this.asked.set(prefix, num + MORE);
    this.arrange();
  }

  // Panels that show something else now.
  dropChanged() {
    const { panels } = this.page.workspace.layout;
    const now = new Map(Object.entries(panels).map(([key, one]) => [key, JSON.stringify(one)]));
    for (const [key, text] of this.panels) if (now.get(key) !== text) this.page.deck.drop(key);
    this.panels = now;
  }

  // The chart that the address has in full screen, once it is there.
  reopen() {
    const { deck, fullscreen, workspace } = this.page;
    if (this.isReopened || !this.keys().includes(workspace.open)) return;
    this.isReopened = true;
    deck.element(workspace.open);
    fullscreen.open(workspace.open);
  }

  // A section was folded or unfolded: by a person, or from here.
  onToggle({ open: isOpen, dataset: { prefix } }) {
    const { workspace } = this.page;
    const { collapsed } = workspace.state;
    if (!prefix || isOpen !== collapsed.includes(prefix)) return;
    workspace.change({ collapsed: isOpen ? collapsed.filter((one) => one !== prefix) : [...collapsed, prefix] });
  }

  close() {
    this.isOver = true;
    clearTimeout(this.again);
    this.filter.close();
  }
}

// What there is to say where there are more series than were listed.
function cutNote(words, numNames) {
  if (!words)
    return `There are more metrics than the ${count(numNames)} listed here: type a part of a name to find others.`;
  return IS_PLAIN.test(words)
    ? "More metrics have that in their name than are listed here: type more of it."
    : `Looked for among the ${count(numNames)} metrics that are listed: plain words, without signs, find all.`;
}
