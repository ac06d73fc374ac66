// How one person looks at these charts: the one place that changes it, redraws, writes the address and has it
// kept. `state` is what they see, `own` what is kept for them: an address that came from others adds nothing to that.
import { readQuery, writeQuery } from "./address.js";
import { DEFAULTS, EMPTY_LAYOUT, layoutOf, tidy, withOverride } from "./state.js";

const LISTS = ["pinned", "collapsed", "hidden", "charts"];
const MOST_UNDONE = 50;
const SETTLE_MS = 250; // browsers refuse an address that changes all the time

export class Workspace {
  // kept: the state that the server had for this page; onChange(keys of the state that changed, the one chart that it
  // is about or null); projects: the layout of the project; hasAddress: the page's address is that of the charts
  constructor(kept, saving, onChange, projects = null, hasAddress = true) {
    this.hasAddress = hasAddress;
    const query = readQuery(hasAddress ? location.search : "");
    const { colours, layout } = kept; // each person's own
    const lists = query.hasLists ? {} : Object.fromEntries(LISTS.map((name) => [name, kept[name]]));
    this.own = kept;
    this.state = tidy({ ...(query.isView ? { colours, layout, ...lists } : kept), ...query.patch });
    this.zoom = query.zoom;
    this.open = query.open;
    this.projects = layoutOf(projects);
    this.before = []; // layouts that were, for undo
    this.saving = saving;
    this.onChange = onChange;
    this.write();
  }

  change(patch, name = null) {
    const old = this.state;
    this.state = tidy({ ...old, ...patch });
    const isOther = (key) => JSON.stringify(this.state[key]) !== JSON.stringify(old[key]);
    const changed = Object.keys(this.state).filter(isOther);
    if (!changed.length) return;
    this.own = { ...this.own, ...Object.fromEntries(Object.keys(patch).map((key) => [key, this.state[key]])) };
    this.saving.later(this.own);
    this.write();
    this.onChange(changed, name);
  }

  changeChart(name, patch) {
    this.change({ charts: withOverride(this.state, name, patch).charts }, name);
  }

  // What is laid out where: this person's, else the project's, else as names say.
  get layout() {
    return this.state.layout ?? this.projects ?? EMPTY_LAYOUT;
  }

  // null: the project's again.
  lay(layout) {
    this.before = [...this.before, this.state.layout].slice(-MOST_UNDONE);
    this.change({ layout });
  }

  undo() {
    if (this.before.length) this.change({ layout: this.before.pop() });
  }

  togglePin(name) {
    const { pinned } = this.state;
    this.change({ pinned: pinned.includes(name) ? pinned.filter((one) => one !== name) : [...pinned, name] }, name);
  }

  // How lines are drawn, as at the start; what was pinned, folded, hidden and coloured stays.
  reset() {
    const { axis, smoothing, isLogX, isLogY, ignoreOutliers, ranks, sort, filter, charts } = DEFAULTS;
    this.change({ axis, smoothing, isLogX, isLogY, ignoreOutliers, ranks, sort, filter, charts });
  }

  get isAsAtStart() {
    const { collapsed, pinned, hidden, colours, group, layout } = this.state;
    const start = { ...DEFAULTS, collapsed, pinned, hidden, colours, group, layout };
    return JSON.stringify(start) === JSON.stringify(this.state);
  }

  setZoom(axis, range) {
    if (range) this.zoom = { ...this.zoom, [axis]: range };
    else delete this.zoom[axis];
    this.write();
  }

  setOpen(name) {
    this.open = name;
    this.write();
  }

  write() {
    clearTimeout(this.timer);
    if (!this.hasAddress) return;
    this.timer = setTimeout(() => {
      const search = writeQuery(location.search, this.state, this);
      if (search !== location.search)
        history.replaceState(history.state, "", location.pathname + search + location.hash);
    }, SETTLE_MS);
  }

  close() {
    clearTimeout(this.timer);
    this.saving.close();
  }
}
