// What is brushed goes into the address of the table of trials, so that it can be sent to a colleague.
import { show as showPage } from "../frame/search.js";
import { need } from "../shared/dom.js";

const WAIT_MS = 150; // while one drags
let timer = 0;

/** @param {HTMLElement} root @param {Sweeps.Brush[]} brushes */
export function apply(root, brushes) {
  clearTimeout(timer);
  timer = setTimeout(() => show(root, brushes), WAIT_MS);
}

/** @param {HTMLElement} root @param {Sweeps.Brush[]} brushes */
function show(root, brushes) {
  const query = withBrushes(new URLSearchParams(location.search), brushes);
  return showPage(need(root, ".grid-page"), `${location.pathname}?${query}`);
}

// The query with these brushes in place of those it had, from the first page on.
/** @param {URLSearchParams} before @param {Sweeps.Brush[]} brushes */
export function withBrushes(before, brushes) {
  const query = new URLSearchParams(before);
  query.delete("brush");
  for (const { axis, ranges, texts } of brushes) {
    for (const [low, high] of ranges) query.append("brush", `${axis}|${plain(low)}..${plain(high)}`);
    for (const text of texts) query.append("brush", `${axis}=${text}`);
  }
  return query;
}

/** @param {number} value */
const plain = (value) => String(Number(value.toPrecision(9)));
