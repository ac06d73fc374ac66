// Charts of one run or of several: sections by prefix, a card per metric, only those in view drawn, one set of switches for all.
import { streamsFor } from "../streams.js";
import { Card } from "./card.js";
import { contextOf } from "./context.js";
import { Crosshair } from "./crosshair.js";
import { Deck } from "./deck.js";
import { Filter } from "./filter.js";
import { Fullscreen } from "./fullscreen.js";
import { Notes } from "./notes.js";
import { Painter } from "./painter.js";
import { Runs, labelColours } from "./runs.js";
import { Saving } from "./saving.js";
import { lay, planned } from "./sections.js";
import { axisOf } from "./state.js";
import { Store } from "./store.js";
import { Toolbar } from "./toolbar.js";
import { Windows } from "./windows.js";
import { Workspace } from "./workspace.js";

const AGAIN_MS = 3000;
const LAID_BY = ["filter", "pinned", "collapsed", "axis"]; // what of the state says where cards are
const DRAWN_BY = ["axis", "smoothing", "isLogX", "isLogY", "ignoreOutliers", "ranks", "sort", "charts", "group", "hidden", "colours"];

export function mount(element) {
  const page = new Charts(element);
  return () => page.close();
}

class Charts {
  constructor(element) {
    this.element = element;
    const { runs, state, project, worker } = element.dataset;
    this.runs = new Runs(read(runs));
    this.notes = new Notes(element);
    this.filter = new Filter(worker);
    this.painter = new Painter((name) => this.deck.cards.get(name)?.draw());
    this.toolbar = new Toolbar(element.querySelector("form.chart-tools"), {
      onChange: (patch) => this.workspace.change(patch),
      onResetZoom: () => Object.keys(this.workspace.zoom).forEach((axis) => this.zoom(axis, null)),
      onReset: () => this.workspace.reset(),
    });
    const saving = new Saving(project && `/api/v1/projects/${project}/workspace`, read(state), (how, words) => this.toolbar.tell(how, words));
    this.workspace = new Workspace(read(state), saving, (changed) => this.onChange(changed));
    this.store = new Store(this.runs.list, {
      onNames: () => this.onNames(),
      onData: (name) => this.painter.want(name),
      onGone: (id) => this.notes.lose(this.runs.titles.get(id) ?? id, !this.runs.isMany),
      streamOf: streamsFor((id) => this.runs.byId.get(id)?.isLive ?? false),
    });
    this.windows = new Windows(this.store, (name) => this.painter.want(name), (name) => axisOf(name, this.workspace.state.axis));
    this.crosshair = new Crosshair();
    const context = contextOf(this, element.querySelector("template.card-template"));
    this.deck = new Deck(element.querySelector("[data-sections]"), { store: this.store, make: (name) => new Card(name, context), isHeld: (name) => name === this.fullscreen.name });
    this.fullscreen = new Fullscreen(() => this.deck.ordered(), (name) => this.workspace.setOpen(name));
    this.listen();
    for (const [axis, range] of Object.entries(this.workspace.zoom)) this.windows.set(axis, range);
    if (this.toolbar.typed) this.workspace.change({ filter: this.toolbar.typed });
    this.showToolbar();
    this.list();
    this.tell();
  }

  listen() {
    this.over = new AbortController();
    const { signal } = this.over;
    this.element.addEventListener("workspace", (event) => this.onWorkspace(event.detail ?? {}), { signal });
    this.deck.host.addEventListener("toggle", ({ target }) => this.onToggle(target), { signal, capture: true });
    this.element.querySelector("[data-clear-filter]").addEventListener("click", () => this.toolbar.clearFilter(), { signal });
    addEventListener("themechange", () => this.redraw(), { signal });
  }

  async list() {
    await this.store.list();
    this.isListed = true;
    await this.arrange(); // where there is nothing, that is to be said, too
  }

  onNames() {
    this.colours = null;
    this.arrange();
  }

  // A colour per label set.
  get labelled() {
    return (this.colours ??= labelColours(this.store.names));
  }

  // Which cards there are, and where.
  async arrange() {
    const { state } = this.workspace;
    const names = [...this.store.names.keys()];
    const found = await this.filter.ask(state.filter, names);
    if (!found || this.over.signal.aborted) return; // asked anew meanwhile
    const plan = planned(found.fitting, state.pinned);
    this.deck.keep(new Set(found.fitting));
    lay(this.deck.host, this.element.querySelector("template.section-template"), plan, { ...state, elementOf: (name) => this.deck.element(name) });
    this.notes.show({ isListed: this.isListed, isUnanswered: this.store.isUnanswered, numNames: names.length, numFitting: found.fitting.length, filter: state.filter, note: found.note });
    this.showToolbar();
    this.reopen();
    clearTimeout(this.again);
    if (this.store.isUnanswered) this.again = setTimeout(() => this.arrange(), AGAIN_MS);
  }

  // The chart that the address has in full screen, once it is there.
  reopen() {
    const name = this.workspace.open;
    if (this.isReopened || !this.deck.cards.has(name)) return;
    this.isReopened = true;
    this.fullscreen.open(name);
  }

  onChange(changed) {
    const has = (keys) => changed.some((key) => keys.includes(key));
    if (has(LAID_BY)) this.arrange();
    if (has(DRAWN_BY)) this.redraw();
    this.showToolbar();
    this.tell();
  }

  onToggle(section) {
    const { prefix } = section.dataset;
    const { collapsed } = this.workspace.state;
    if (!prefix || section.open !== collapsed.includes(prefix)) return; // it was folded from here
    this.workspace.change({ collapsed: section.open ? collapsed.filter((one) => one !== prefix) : [...collapsed, prefix] });
  }

  // From the list of runs beside the charts.
  onWorkspace({ runs, lit, ...patch }) {
    if (lit !== undefined) return this.crosshair.light(lit);
    if (runs) {
      this.runs.set(runs);
      this.store.setRuns(runs);
      this.redraw();
    }
    this.workspace.change(patch);
    this.tell();
  }

  zoom(axis, range) {
    this.workspace.setZoom(axis, range);
    this.windows.set(axis, range);
    const isAlong = (name) => axisOf(name, this.workspace.state.axis) === axis;
    for (const name of this.deck.shown) if (isAlong(name)) this.deck.cards.get(name).follow();
    this.redraw(isAlong);
    this.showToolbar();
  }

  redraw(isIt = () => true) {
    this.painter.now([...this.deck.shown, this.fullscreen.name].filter((name) => name && isIt(name)));
  }

  showToolbar() {
    const { state, zoom, isAsAtStart } = this.workspace;
    const hasRanks = [...this.store.names.values()].some((lines) => lines.size > this.runs.list.length);
    this.toolbar.show(state, { isZoomed: Object.keys(zoom).length > 0, isAsAtStart, hasRanks });
  }

  tell() {
    this.element.dispatchEvent(new CustomEvent("workspacechange", { bubbles: true, detail: this.workspace.state }));
  }

  close() {
    this.over.abort();
    clearTimeout(this.again);
    for (const part of [this.fullscreen, this.deck, this.store, this.windows, this.crosshair, this.painter, this.filter, this.toolbar, this.workspace]) part.close?.();
  }
}

function read(id) {
  return JSON.parse(document.getElementById(id).textContent);
}
