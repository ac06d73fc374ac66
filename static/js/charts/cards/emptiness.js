// Why a plot has no line to show, in words; "" where it has one.

// rows: of the legend, whose order has the least and the greatest number of each line.
export function whyEmpty(rows, numBad, isLogY) {
  const spans = rows.map(({ order }) => order).filter(({ min }) => Number.isFinite(min));
  if (!spans.length) return numBad ? "no value here is a number" : "no points yet";
  const [least, most] = [Math.min(...spans.map(({ min }) => min)), Math.max(...spans.map(({ max }) => max))];
  if (isLogY && most <= 0) return "no value is above zero, as log y needs";
  return Number.isFinite(most - least) ? "" : "these values are too far apart for one axis";
}
