// Parallel coordinates: an axis for each field and one for each objective, a line for each trial in the colour of its
// value. An axis is brushed by dragging along it.
import { colour, faded } from "../../shared/colours.js";
import { axis, base, evenly, fieldAxis, legend, ramp, roomyRange, usualRange } from "../look.js";

/** @param {Sweeps.Columns} columns @returns {string[]} */
export function axesOf(columns) {
  return [...columns.fields.map((one) => one.path), ...columns.objectives.map((_, at) => `value:${at}`)];
}

/** @param {Sweeps.Columns} columns @returns {Sweeps.Option} */
export function parallel(columns) {
  const { fields, objectives } = columns;
  const lines = objectives[0].values.flatMap((value, at) => (value === null ? [] : [at])); // of trials with a value
  const rows = lines.map((at) => [...fields.map((one) => one.values[at]), ...objectives.map((one) => one.values[at])]);
  const [min, max] = usualRange(objectives[0].values);
  const last = fields.length;
  const named = (/** @type {number} */ dim, /** @type {string} */ name) => ({
    dim,
    name: name.length > 18 ? `${name.slice(0, 17)}…` : name,
    nameTextStyle: { color: colour("text"), fontSize: 12 },
    splitLine: { show: false },
    axisLabel: { backgroundColor: faded(colour("surface"), 0.8), padding: [1, 2] },
  });
  return {
    ...base(),
    tooltip: { show: false },
    parallel: {
      left: 48,
      right: 64,
      top: 40,
      bottom: 52,
      axisExpandable: false,
      parallelAxisDefault: { areaSelectStyle: { width: 16, color: colour("accent"), opacity: 0.25, borderWidth: 0 } },
    },
    parallelAxis: [
      ...fields.map((one, at) => fieldAxis(one, named(at, one.label))),
      ...objectives.map((one, at) => {
        const [look, scale] = [named(last + at, one.metric), evenly(...roomyRange(one.values, 0.6))];
        return axis({ ...look, ...scale, axisLabel: { ...look.axisLabel, ...scale.axisLabel } });
      }),
    ],
    visualMap: {
      ...legend(objectives[0].metric, min, max),
      dimension: last,
      seriesIndex: 0,
      inRange: { color: ramp(objectives[0].direction) },
    },
    series: [
      {
        type: "parallel",
        data: rows,
        smooth: false,
        progressive: 500,
        lineStyle: { width: lines.length > 300 ? 1 : 1.5, opacity: lines.length > 300 ? 0.45 : 0.75 },
        inactiveOpacity: 0.04,
        activeOpacity: 0.9,
      },
    ],
  };
}

// What the axes let through now, as ECharts has it.
/** @param {any} chart @param {Sweeps.Columns} columns @returns {Sweeps.Brush[]} */
export function brushesOf(chart, columns) {
  const axes = axesOf(columns);
  return axes.flatMap((name, at) => {
    const intervals = chart.getModel().getComponent("parallelAxis", at)?.activeIntervals ?? [];
    if (!intervals.length) return [];
    const choices = columns.fields[at]?.choices ?? [];
    if (!choices.length) return [{ axis: name, ranges: intervals, texts: [] }];
    const texts = intervals.flatMap((/** @type {[number, number]} */ [from, to]) =>
      choices.filter((_, place) => place >= Math.min(from, to) - 0.5 && place <= Math.max(from, to) + 0.5),
    );
    return [{ axis: name, ranges: [], texts }];
  });
}
