// The objective over two fields, with the trials as points.
import { colour } from "../../shared/colours.js";
import { tick } from "../../shared/format.js";
import { axis, base, legend, ramp, shown, usualRange } from "../look.js";

/** @param {Sweeps.Columns} columns @param {Sweeps.Surface} found @param {Sweeps.Field} x @param {Sweeps.Field} y */
export function surface(columns, found, x, y) {
  const { metric, direction, values } = columns.objectives[0];
  const cells = found.cells.flatMap((row, up) => row.map((value, across) => [across, up, value]));
  const [min, max] = usualRange(cells.map(([, , value]) => value));
  const points = values.flatMap((value, at) => {
    const place = [placeOf(found.x, x, x.values[at]), placeOf(found.y, y, y.values[at])];
    return value === null || place.includes(null) ? [] : [[...place, value, columns.number[at]]];
  });
  const labels = (/** @type {number[] | string[]} */ all) =>
    all.map((one) => (typeof one === "string" ? one : tick(one)));
  return {
    ...base(({ value, seriesType }) =>
      seriesType === "heatmap" ? `${metric} about ${shown(value[2])}` : `Trial ${value[3]}: ${shown(value[2])}`,
    ),
    grid: { left: 8, right: 16, top: 28, bottom: 56, containLabel: true },
    xAxis: axis({
      type: "category",
      data: labels(found.x),
      name: x.label,
      nameLocation: "middle",
      nameGap: 26,
      axisLabel: { interval: someOf(x) },
    }),
    yAxis: axis({ type: "category", data: labels(found.y), name: y.label, axisLabel: { interval: someOf(y) } }),
    visualMap: { ...legend(metric, min, max), dimension: 2, inRange: { color: ramp(direction) } },
    series: [
      { type: "heatmap", data: cells.filter(([, , value]) => value !== null), progressive: 0 },
      {
        type: "custom",
        data: points,
        renderItem: (/** @type {any} */ _, /** @type {any} */ api) => dot(api, found),
        z: 3,
      },
    ],
  };
}

/** Of a range every eighth cell has its value beside it, and the last. @param {Sweeps.Field} field */
const someOf = (field) => (field.choices.length ? 0 : (/** @type {number} */ at) => at % 8 === 0 || at === 31);

// Where on an axis of cells a value lies, counted in cells; null outside.
/** @param {number[] | string[]} cells @param {Sweeps.Field} field @param {number | string | null} value */
function placeOf(cells, field, value) {
  if (value === null) return null;
  if (typeof value === "string") {
    const at = /** @type {string[]} */ (cells).indexOf(value);
    return at < 0 ? null : at;
  }
  const scaled = (/** @type {any} */ one) => (field.isLog ? Math.log(one) : Number(one));
  const [low, high] = [scaled(cells[0]), scaled(cells[cells.length - 1])];
  return high > low ? ((scaled(value) - low) / (high - low)) * (cells.length - 1) : 0;
}

/** A category axis knows whole cells; a point lies anywhere in them. @param {any} api @param {Sweeps.Surface} found */
function dot(api, found) {
  const [left, top] = api.coord([0, 0]);
  const [width, height] = api.size([1, 1]);
  const [cx, cy] = [left + api.value(0) * width, top - api.value(1) * height];
  return {
    type: "circle",
    shape: { cx, cy, r: found.num_used < 400 ? 3.5 : 2 },
    style: { fill: colour("surface"), stroke: colour("text"), lineWidth: 1 },
  };
}
