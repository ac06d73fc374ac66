// What the cards get from the page: its data, its settings and callbacks.
import { optionsOf } from "../settings/state.js";

// page: the Charts of charts.js
export function contextOf(page, template) {
  const { store, crosshair } = page;
  return {
    store,
    crosshair,
    template,
    windows: {
      range: (axis) => page.windows.range(axis),
      set: (axis, range) => page.zoom(axis, range),
      entry: (name) => page.windows.entry(name),
    },
    settings: (name) => ({
      ...optionsOf(page.workspace.state, name),
      starts: page.runs.starts,
      group: page.runs.groupsOf(page.workspace.state),
      hidden: page.runs.hiddenOf(page.workspace.state),
    }),
    change: (name, patch) => page.workspace.changeChart(name, patch),
    changeAll: (patch) => page.workspace.change(patch),
    colourOf: (key, built) => page.runs.colourOf(built.lines.get(key), page.workspace.state, page.layout.labelled),
    labelOf: (key, built) => page.runs.labelOf(built.lines.get(key), key),
    onZoom: (axis, range) => page.zoom(axis, range),
    onPin: (name) => page.workspace.togglePin(name),
    isPinned: (name) => page.workspace.state.pinned.includes(name),
    onOpen: (name) => page.fullscreen.open(name),
    alarmsOf: (name, axis) => page.runs.alarmsOf(name, axis),
    causeOf: (run, attempt) => page.runs.causeOf(run, attempt, () => page.redraw()),
    csvUrl: (name) => csvUrl(page.runs.list, name),
  };
}

// Every point of the metric, named by the server.
function csvUrl(runs, name) {
  const query = new URLSearchParams([...(runs.length > 1 ? runs.map(({ id }) => ["run", id]) : []), ["name", name]]);
  return runs.length > 1 ? `/api/v1/series.csv?${query}` : `/api/v1/runs/${runs[0]?.id}/series.csv?${query}`;
}
