// The objective over one field, and the front of two objectives.
import { colour, faded, seriesColour } from "../../shared/colours.js";
import { tick } from "../../shared/format.js";
import { axis, base, evenly, fieldAxis, nameOf, shown, usualRange } from "../look.js";

/** @param {Sweeps.Columns} columns @param {Sweeps.Field} field @returns {Sweeps.Option} */
export function slice(columns, field) {
  const { metric, values } = columns.objectives[0];
  const [complete, pruned] = ["complete", "pruned"].map((state) =>
    values.flatMap((value, at) =>
      columns.state[at] === state && value !== null && field.values[at] !== null
        ? [[field.values[at], value, columns.number[at]]]
        : [],
    ),
  );
  const [low, high] = usualRange(complete.map((one) => Number(one[1])));
  const room = (high - low) * 0.7;
  return {
    ...base(
      ({ value }) => `${nameOf(columns, value[2])}\n${field.label} ${shown(value[0])}\n${metric} ${shown(value[1])}`,
    ),
    grid: { left: 8, right: 14, top: 28, bottom: 8, containLabel: true },
    title: {
      text: field.label,
      left: "center",
      top: 2,
      textStyle: { fontSize: 12, fontWeight: 500, color: colour("text") },
    },
    xAxis: fieldAxis(field, { splitLine: { show: false } }),
    yAxis: axis({ ...evenly(low - room * 0.15, high + room, 3) }),
    series: [
      points(pruned, faded(colour("muted"), 0.35), 4),
      points(complete, faded(seriesColour(0), 0.7), complete.length > 500 ? 3 : 6),
    ],
  };
}

/** @param {Sweeps.Columns} columns @returns {Sweeps.Option} */
export function pareto(columns) {
  const [first, second] = columns.objectives;
  const onFront = new Set(columns.front);
  const rows = first.values.flatMap((value, at) => {
    const other = second.values[at];
    return value === null || other === null ? [] : [[value, other, columns.number[at]]];
  });
  const others = rows.filter(([, , number]) => !onFront.has(number));
  const front = rows.filter(([, , number]) => onFront.has(number)).sort(([a], [b]) => a - b);
  return {
    ...base(({ value }) => `Trial ${value[2]}\n${shown(value[0])}, ${shown(value[1])}`),
    grid: { left: 8, right: 24, top: 28, bottom: 30, containLabel: true },
    xAxis: axis({
      scale: true,
      name: `${first.metric} (${first.direction})`,
      nameLocation: "middle",
      nameGap: 24,
      axisLabel: { formatter: tick },
    }),
    yAxis: axis({
      scale: true,
      name: `${second.metric} (${second.direction})`,
      nameTextStyle: { align: "left", color: colour("muted") },
      axisLabel: { formatter: tick },
    }),
    series: [
      points(others, faded(colour("muted"), 0.5), 5),
      {
        type: "line",
        data: front,
        step: first.direction === "minimize" ? "start" : "end",
        symbolSize: 8,
        lineStyle: { color: seriesColour(0), width: 1.5 },
        itemStyle: { color: seriesColour(0) },
      },
    ],
  };
}

/** @param {any[]} data @param {string} paint @param {number} size */
function points(data, paint, size) {
  return { type: "scatter", data, symbolSize: size, large: true, largeThreshold: 1000, itemStyle: { color: paint } };
}
