// How much each field matters, by both ways, with their errors.
import { colour, seriesColour } from "../../shared/colours.js";
import { percent } from "../../shared/format.js";
import { axis, base } from "../look.js";

const MOST = 12; // fields

/** @param {Sweeps.Importance} found @returns {Sweeps.Option} */
export function importance(found) {
  const fields = found.fields.slice(0, MOST).reverse(); // the first one is drawn lowest
  const rows = [
    fields.map((one) => [one.fanova, one.fanova_error]),
    fields.map((one) => [Math.max(0, one.permutation), one.permutation_error]),
  ];
  const most = Math.max(0.1, ...rows.flat().map(([share, error]) => share + error)); // the longest bar with its error
  return {
    ...base((items) => words(fields[items[0].dataIndex]), { trigger: "axis", axisPointer: { type: "shadow" } }),
    grid: { left: 8, right: 24, top: 12, bottom: 24, containLabel: true },
    xAxis: axis({
      min: 0,
      max: Math.ceil(most * 10) / 10,
      axisLabel: { formatter: (/** @type {number} */ share) => percent(share) },
    }),
    yAxis: axis({
      type: "category",
      data: fields.map((one) => one.label),
      axisLabel: { width: 130, overflow: "truncate", color: colour("text"), fontSize: 12 },
    }),
    series: rows.flatMap((row, which) => [
      {
        type: "bar",
        name: ["fANOVA", "permutation"][which],
        data: row.map(([share]) => share),
        barMaxWidth: 12,
        itemStyle: { color: seriesColour(which), borderRadius: [0, 3, 3, 0] },
      },
      {
        type: "custom",
        data: row.map(([share, error], at) => [share, at, error]),
        renderItem: (/** @type {any} */ _, /** @type {any} */ api) => whisker(api, which),
        silent: true,
        z: 3,
      },
    ]),
  };
}

/** @param {Sweeps.FieldImportance} one */
function words(one) {
  const first = `fANOVA ${percent(one.fanova)} ± ${percent(one.fanova_error)}`;
  return `${one.path}\n${first}\npermutation ${percent(one.permutation)} ± ${percent(one.permutation_error)}`;
}

/** A line from one standard deviation below to one above. @param {any} api @param {number} which */
function whisker(api, which) {
  const [share, at, error] = [api.value(0), api.value(1), api.value(2)];
  const height = api.size([0, 1])[1];
  const bar = Math.min(12, height * 0.35);
  const [left, top] = api.coord([Math.max(0, share - error), at]);
  const [right] = api.coord([share + error, at]);
  const middle = top + (which === 0 ? -1 : 1) * bar * 0.65;
  const style = { stroke: colour("text"), lineWidth: 1, fill: "none" };
  const line = (/** @type {number[]} */ [x1, y1, x2, y2]) => ({ type: "line", shape: { x1, y1, x2, y2 }, style });
  return {
    type: "group",
    children: [
      line([left, middle, right, middle]),
      line([left, middle - 3, left, middle + 3]),
      line([right, middle - 3, right, middle + 3]),
    ],
  };
}
