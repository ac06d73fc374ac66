// Charts of one run or of several: sections by prefix, a card per metric, only those in view drawn, one set of
// switches for all.
import { on } from "../live/live.js";
import { streamsFor } from "../live/streams.js";
import { keepZoom, keptZoom } from "../shared/zoom.js";
import { Card } from "./cards/card.js";
import { axisOf } from "./data/names.js";
import { Runs } from "./data/runs.js";
import { Store } from "./data/store.js";
import { Windows } from "./data/windows.js";
import { Crosshair } from "./interaction/crosshair.js";
import { Fullscreen } from "./interaction/fullscreen.js";
import { Bands } from "./page/bands.js";
import { contextOf } from "./page/context.js";
import { Deck } from "./page/deck.js";
import { Editing } from "./page/editing.js";
import { Layout } from "./page/layout.js";
import { startNoting } from "./page/noting.js";
import { Painter } from "./page/painter.js";
import { Panels } from "./page/panels.js";
import { Saving } from "./settings/saving.js";
import { optionsOf, stateFor } from "./settings/state.js";
import { Toolbar } from "./settings/toolbar.js";
import { Workspace } from "./settings/workspace.js";

const LAID_BY = ["filter", "pinned", "collapsed", "axis", "layout"]; // what of the state says where cards are
const DRAWN_BY = "axis smoothing isLogX isLogY ignoreOutliers ranks sort charts pinned group hidden colours".split(" ");

export function mount(element) {
  const page = new Charts(element);
  return () => page.close();
}

class Charts {
  constructor(element) {
    this.element = element;
    const { runs, series, state, layoutOfProject: layout, axes, project, page } = element.dataset;
    this.runs = new Runs(read(runs), element.dataset.usualGroup ?? null);
    this.layout = new Layout(this);
    this.panels = new Panels(this, axes ? read(axes) : {});
    this.painter = new Painter(
      (name) => this.deck.cards.get(name)?.draw(),
      (name) => this.deck.cards.get(name)?.isCalm ?? false,
    );
    this.toolbar = new Toolbar(element.querySelector("form.chart-tools"), {
      onChange: (patch) => this.workspace.change(patch),
      onResetZoom: () => Object.keys(this.workspace.zoom).forEach((axis) => this.zoom(axis, null)),
      onReset: () => this.workspace.reset(),
    });
    const kept = read(state);
    const saving = new Saving(project && `/api/v1/projects/${project}/workspace`, page, kept, (how, words) =>
      this.toolbar.showSaving(how, words),
    );
    const onChange = (changed, name) => this.onChange(changed, name);
    const onData = (name) => this.onData(name);
    this.workspace = new Workspace(stateFor(page, kept), saving, onChange, read(layout), page !== "beside");
    this.store = new Store(this.runs.list, {
      onNames: () => this.layout.onNames(),
      onData,
      onGone: (id) => this.layout.notes.showGone(this.runs.titles.get(id) ?? id, !this.runs.isMany),
      streamOf: streamsFor((id) => this.runs.byId.get(id)?.isLive ?? false),
    });
    this.windows = new Windows(this.store, onData, (name) => axisOf(name, this.workspace.state.axis));
    this.crosshair = new Crosshair();
    const context = contextOf(this, element.querySelector("template.card-template"));
    this.deck = new Deck(element.querySelector("[data-sections]"), {
      store: this.panels,
      template: element.querySelector("template.light-template"),
      make: (name) => new Card(name, context),
      isHeld: (name) => name === this.fullscreen.name,
      titleOf: (name) => this.panels.titleOf(name, true),
      sizeOf: (name) => optionsOf(this.workspace.state, name).size,
    });
    this.fullscreen = new Fullscreen(
      () => this.deck.ordered(),
      (name) => this.workspace.setOpen(name),
    );
    this.listen();
    this.editing = new Editing(this);
    this.note = startNoting(this);
    this.takeKeptZoom();
    const bands = element.querySelector("[data-bands]");
    this.bands = bands && new Bands(bands, () => this.bandLook());
    for (const [axis, range] of Object.entries(this.workspace.zoom)) this.windows.set(axis, range);
    if (this.toolbar.typed) this.workspace.change({ filter: this.toolbar.typed });
    this.showToolbar();
    this.store.addNames(read(series)); // what the page came with; the server is asked for what is missing
    this.layout.list();
    this.publish();
  }

  listen() {
    this.over = new AbortController();
    const { signal } = this.over;
    this.element.addEventListener("workspace", (event) => this.onWorkspace(event.detail ?? {}), { signal });
    this.deck.host.addEventListener("toggle", ({ target }) => this.layout.onToggle(target), { signal, capture: true });
    const clear = this.element.querySelector("[data-clear-filter]");
    clear.addEventListener("click", () => this.toolbar.clearFilter(), { signal });
    addEventListener("themechange", () => this.redraw(), { signal });
    this.stopMarks = on("run", () => this.runs.isMany || this.runs.ask(this.runs.list[0], () => this.redraw()));
  }

  onData(name) {
    for (const key of this.panels.usersOf(name)) this.painter.want(key);
  }

  onChange(changed, name) {
    const has = (keys) => changed.some((key) => keys.includes(key));
    if (has(LAID_BY)) this.layout.arrange();
    if (has(DRAWN_BY)) this.redraw(name ? (one) => one === name : undefined);
    this.bands?.place();
    this.showToolbar();
    this.publish();
  }

  bandLook() {
    const { state, zoom } = this.workspace;
    const { axis, isLogX } = state;
    return { axis, isLogX, range: zoom[axis], hidden: this.runs.hiddenOf(state) };
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
    this.publish();
  }

  // The other tabs of the run show the same steps; an address with a zoom has its own.
  takeKeptZoom() {
    const range = this.runs.isMany || Object.keys(this.workspace.zoom).length ? null : keptZoom(this.runs.list[0]?.id);
    if (range) this.workspace.setZoom("step", range);
  }

  zoom(axis, range) {
    if (axis === "step" && !this.runs.isMany) keepZoom(this.runs.list[0]?.id, range);
    this.workspace.setZoom(axis, range);
    this.windows.set(axis, range);
    const isAlong = (name) => this.panels.axisOf(name, this.workspace.state.axis) === axis;
    for (const name of this.deck.shown) if (isAlong(name)) this.deck.cards.get(name).follow();
    this.redraw(isAlong);
    this.bands?.place();
    this.showToolbar();
  }

  /** @param {(name: string) => boolean} [isIt] */
  redraw(isIt = () => true) {
    this.painter.now([...this.deck.shown, this.fullscreen.name].filter((name) => name && isIt(name)));
  }

  showToolbar() {
    const { state, zoom, isAsAtStart } = this.workspace;
    const hasRanks = [...this.store.names.values()].some((lines) => lines.size > this.runs.list.length);
    this.toolbar.show(state, { isZoomed: Object.keys(zoom).length > 0, isAsAtStart, hasRanks });
    this.element.querySelector('[data-layout="undo"]').disabled = !this.workspace.before.length;
    this.element.querySelector('[data-layout="reset"]').disabled = !state.layout;
  }

  publish() {
    this.element.dispatchEvent(new CustomEvent("workspacechange", { bubbles: true, detail: this.workspace.state }));
  }

  close() {
    this.over.abort();
    this.stopMarks();
    this.bands?.close();
    const { layout, fullscreen, deck, store, windows, crosshair, painter, toolbar, workspace } = this;
    for (const part of [layout, fullscreen, deck, store, windows, crosshair, painter, toolbar, workspace]) part.close();
  }
}

const read = (id) => JSON.parse(document.getElementById(id).textContent);
