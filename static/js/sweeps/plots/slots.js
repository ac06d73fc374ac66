// Which trial held which slot when: a lane for each slot, a bar for each trial in the colour of its state.
import { colour } from "../../shared/colours.js";
import { duration } from "../../shared/format.js";
import { axis, base, stateColour } from "../look.js";

/** @param {Sweeps.Columns} columns @returns {Sweeps.Option} */
export function slots(columns) {
  const { lanes, bars, states } = columns.slots;
  const zero = bars.reduce((least, [, start]) => Math.min(least, start), Number.POSITIVE_INFINITY);
  const rows = bars.map(([lane, start, end, state, number]) => [lane, start - zero, end - zero, state, number]);
  return {
    ...base(
      ({ value }) =>
        `Trial ${value[4]}: ${states[value[3]] ?? ""}\n${lanes[value[0]]}, ${duration(value[2] - value[1])}`,
    ),
    grid: { left: 8, right: 20, top: 12, bottom: 24, containLabel: true },
    xAxis: axis({
      min: 0,
      max: "dataMax",
      splitLine: { show: false },
      axisLabel: { formatter: (/** @type {number} */ at) => duration(at) },
    }),
    yAxis: axis({ type: "category", data: lanes, inverse: true, axisLabel: { width: 110, overflow: "truncate" } }),
    dataZoom: [{ type: "inside", filterMode: "weakFilter" }],
    series: [
      {
        type: "custom",
        data: rows,
        encode: { x: [1, 2], y: 0 },
        renderItem: (/** @type {any} */ place, /** @type {any} */ api) => bar(place, api, states),
      },
    ],
  };
}

/** @param {any} place @param {any} api @param {string[]} states */
function bar(place, api, states) {
  const [left, middle] = api.coord([api.value(1), api.value(0)]);
  const [right] = api.coord([api.value(2), api.value(0)]);
  const height = Math.min(22, api.size([0, 1])[1] * 0.72);
  const area = place.coordSys;
  const from = Math.max(left, area.x);
  const to = Math.min(Math.max(right - 1, left + 1), area.x + area.width);
  if (to <= from) return null;
  const number = String(api.value(4));
  return {
    type: "rect",
    shape: { x: from, y: middle - height / 2, width: to - from, height, r: 2 },
    style: { fill: stateColour(states[api.value(3)] ?? ""), opacity: 0.85 },
    textContent:
      to - from > number.length * 8 + 6 && height > 11
        ? { style: { text: number, fill: colour("surface"), fontSize: 10, fontFamily: "Inter Variable" } }
        : undefined,
    textConfig: { position: "inside" },
  };
}
