// What the cards get from the page: its data, its settings and callbacks.
import { optionsOf } from "../settings/state.js";

// page: the Charts of charts.js
export function contextOf(page, template) {
  return {
    crosshair: page.crosshair,
    template,
    windows: page.windows,
    want: (name) => page.panels.want(name),
    entry: (name) => page.panels.entry(name),
    axisOf: (name, axis) => page.panels.axisOf(name, axis),
    formatOf: (name) => page.panels.formatOf(name),
    titleOf: (name, isShort) => page.panels.titleOf(name, isShort),
    problemOf: (name) => page.panels.problemOf(name),
    settings: (name) => ({
      ...optionsOf(page.workspace.state, name),
      starts: page.runs.starts,
      // Lines of several metrics have no mean.
      ...(page.panels.of(name)?.terms.length > 1
        ? { group: null, ranks: "lines" }
        : { group: page.runs.groupsOf(page.workspace.state) }),
      hidden: page.runs.hiddenOf(page.workspace.state),
    }),
    change: (name, patch) => page.workspace.changeChart(name, patch),
    changeAll: (patch) => page.workspace.change(patch),
    colourOf: (key, built, name) =>
      page.panels.kept(name) && !page.runs.isMany
        ? [...built.lines.keys()].indexOf(key) % 10
        : page.runs.colourOf(built.lines.get(key), page.workspace.state, page.layout.labelled),
    labelOf: (key, built) => page.runs.labelOf(built.lines.get(key), key),
    onZoom: (axis, range) => page.zoom(axis, range),
    onPin: (name) => page.workspace.togglePin(name),
    isPinned: (name) => page.workspace.state.pinned.includes(name),
    onOpen: (name) => page.fullscreen.open(name),
    onEdit: (name) => page.editing.open(page.panels.kept(name) ? name : null, null),
    onRemove: (name) => page.editing.remove(name),
    onNote: (step) => page.note(step),
    isPanel: (name) => page.panels.kept(name) !== undefined,
    marksOf: (name, axis, stepAt) => page.runs.marksOf(page.panels.namesOf(name), axis, stepAt),
    causeOf: (run, attempt) => page.runs.causeOf(run, attempt, () => page.redraw()),
    csvUrl: (name) => pointsUrl(page.runs.list, page.panels.namesOf(name), "csv"),
    parquetUrl: (name) => pointsUrl(page.runs.list, page.panels.namesOf(name), "arrow", [["format", "parquet"]]),
  };
}

// Every point of the metrics, named by the server.
function pointsUrl(runs, names, ending, more = []) {
  const chosen = runs.length > 1 ? runs.map(({ id }) => ["run", id]) : [];
  const query = new URLSearchParams([...chosen, ...names.map((name) => ["name", name]), ...more]);
  return `/api/v1/${runs.length > 1 ? "" : `runs/${runs[0]?.id}/`}series.${ending}?${query}`;
}
