// What a bin of a histogram holds, and a histogram as a whole, in words.
import { number } from "../../shared/format.js";

export function words(edges, bin, value, share) {
  const amount = `${number(value)} ${value === 1 ? "value" : "values"}`;
  return `${number(edges[bin])} … ${number(edges[bin + 1])}:  ${amount}, ${number(share * 100, "%")}`;
}

export function summary({ edges, counts }, meta) {
  const total = counts.reduce((sum, one) => sum + one, 0);
  const filled = counts.map((one, at) => (one ? at : -1)).filter((at) => at >= 0);
  const range = filled.length ? `, from ${number(edges[filled[0]])} to ${number(edges[filled.at(-1) + 1])}` : "";
  const left = meta?.num_not_finite ? `, ${number(meta.num_not_finite)} not finite` : "";
  return `${number(total)} ${total === 1 ? "value" : "values"}${range}${left}`;
}
