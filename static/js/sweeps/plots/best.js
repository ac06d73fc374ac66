// The best value so far: every complete trial as a point, and the best of them as a stair.
import { colour, faded, seriesColour } from "../../shared/colours.js";
import { duration, tick } from "../../shared/format.js";
import { axis, base, evenly, roomyRange, shown } from "../look.js";

/** @param {Sweeps.Columns} columns @param {"trials" | "compute"} over @returns {Sweeps.Option} */
export function bestSoFar(columns, over) {
  const found = over === "trials" ? columns.overTrials : columns.overCompute;
  const { metric, values } = columns.objectives[0];
  const stair = (found?.steps ?? []).map(([at, number, value]) => [at, value, number]);
  const last = stair.at(-1);
  if (last && found && found.end > last[0]) stair.push([found.end, last[1], last[2]]);
  const points = over === "trials" ? columns.number.map((number, at) => [number, values[at], number]) : [];
  const isComplete = (/** @type {number} */ at) => columns.state[at] === "complete" && values[at] !== null;
  // Far outliers lie outside of what is drawn.
  const complete = values.filter((_, at) => isComplete(at));
  const [low, high] = roomyRange(complete, 0.6);
  const words = over === "compute" ? "slot time" : "trial";
  return {
    ...base(({ value }) => `Trial ${value[2]}: ${shown(value[1])}`, { trigger: "item" }),
    grid: { left: 56, right: 20, top: 24, bottom: 36 },
    xAxis: axis({
      name: words,
      nameLocation: "middle",
      nameGap: 22,
      min: 0,
      max: found?.end || 1,
      splitLine: { show: false },
      axisLabel: { formatter: over === "compute" ? (/** @type {number} */ at) => duration(at) : tick },
    }),
    yAxis: axis({ name: metric, ...evenly(low, high) }),
    series: [
      {
        type: "scatter",
        data: points.filter((_, at) => isComplete(at)),
        symbolSize: 5,
        large: true,
        itemStyle: { color: faded(colour("muted"), 0.55) },
      },
      {
        type: "line",
        data: stair,
        step: "end",
        symbolSize: 7,
        showSymbol: true,
        lineStyle: { color: seriesColour(0), width: 2 },
        itemStyle: { color: seriesColour(0) },
      },
    ],
  };
}
