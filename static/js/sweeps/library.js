// A module of its own, so that ECharts is fetched only once something is drawn.
import { init } from "echarts";

export { init };
