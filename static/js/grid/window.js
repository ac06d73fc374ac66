// The rows of a long table that are near what one sees: they are fetched in chunks as they come into view, and what is
// not there is a space of the same height. What is live changes in its place; new rows wait until one asks for them.

import { patchNode } from "../live/patch.js";
import { make, order, seek } from "../shared/dom.js";
import { changed } from "./address.js";

const CHUNK = 50; // rows, as the page's first ones are
const OVERSCAN = 24; // rows on either side of what one sees
const STEP = 8; // rows that come and go together: many at once cost frames
const MOST_KEPT = 40; // chunks
const SCROLL_MS = 40; // between a scroll and a request

/** @typedef {{num: number, isMore: boolean, numNew: number}} Counted */

/** @param {HTMLTableElement} table @param {{onRows: () => void, onCount: (counted: Counted) => void}} listener */
export function startWindow(table, { onRows, onCount }) {
  const scroller = /** @type {HTMLElement} */ (table.parentElement);
  const body = table.tBodies[0];
  /** @type {Map<number, HTMLElement[]>} */
  const chunks = new Map();
  /** @type {Set<string>} */
  const seen = new Set(); // the runs of all rows that were loaded
  let height = 28; // of a row
  let head = 0;
  let number = 0; // of the list that is shown; answers about another one come too late
  let timer = 0;
  let isFetching = false;

  const isWhole = () => table.dataset.grouped !== undefined; // all of its rows are in the page, of any heights
  const total = () => Number(table.dataset.rows);
  const until = () => table.dataset.until ?? "";

  // Begins with the rows that the page has, of a new list.
  function reset() {
    number += 1;
    chunks.clear();
    seen.clear();
    keep(0, /** @type {HTMLElement[]} */ ([...body.querySelectorAll("tr[data-key]")]));
    render();
    onRows();
  }
  /** @param {number} chunk @param {HTMLElement[]} rows */
  function keep(chunk, rows) {
    chunks.set(chunk, rows);
    for (const row of rows) if (runOf(row)) seen.add(runOf(row));
    if (chunks.size <= MOST_KEPT) return;
    const far = [...chunks.keys()].reduce((one, two) => (Math.abs(one - chunk) > Math.abs(two - chunk) ? one : two));
    chunks.delete(far);
  }
  // The first row of what one sees and a little around it, the one behind the last, and their chunks.
  function range() {
    const top = scroller.scrollTop / height;
    const end = Math.min(total(), STEP * Math.ceil((top + scroller.clientHeight / height + OVERSCAN) / STEP));
    const first = Math.max(0, Math.min(end - 1, STEP * Math.floor((top - OVERSCAN) / STEP)));
    return { first, end, from: Math.floor(first / CHUNK), to: Math.floor((end - 1) / CHUNK) };
  }
  function render() {
    measure();
    if (isWhole()) return;
    const { first, end, from, to } = range();
    const nodes = [space("above", first)];
    for (let chunk = from; chunk <= to; chunk += 1) {
      const [at, last] = [Math.max(first, chunk * CHUNK), Math.min(end, (chunk + 1) * CHUNK)];
      const rows = chunks.get(chunk)?.slice(at - chunk * CHUNK, last - chunk * CHUNK);
      nodes.push(...(rows ?? [space(`at-${chunk}`, last - at)]));
    }
    nodes.push(space("below", total() - end));
    arrange(body, nodes);
    if (!timer && missing()) timer = setTimeout(load, SCROLL_MS);
  }
  function measure() {
    const row = /** @type {HTMLElement | null} */ (body.querySelector("tr[data-key]"));
    height = row?.offsetHeight || height;
    head = table.tHead?.offsetHeight ?? 0;
  }
  /** @param {string} key @param {number} rows */
  function space(key, rows) {
    if (rows <= 0) return null;
    const found = seek(body, `tr[data-space="${key}"]`);
    const row = found ?? make("tr", { className: "grid-space", ariaHidden: "true" }, make("td"));
    row.dataset.space = key;
    row.style.height = `${rows * height}px`;
    return row;
  }
  function missing() {
    const { from, to } = range();
    const wanted = [];
    for (let chunk = from; chunk <= to; chunk += 1) if (!chunks.has(chunk)) wanted.push(chunk);
    return wanted.length ? { from: wanted[0], to: /** @type {number} */ (wanted.at(-1)) } : null;
  }
  async function load() {
    timer = 0;
    const wanted = missing();
    if (!wanted || isFetching) return;
    isFetching = true;
    const { from } = wanted;
    const to = Math.min(wanted.to, from + 3);
    const mine = number;
    const answer = await ask({ offset: from * CHUNK, limit: (to - from + 1) * CHUNK, until: until() });
    isFetching = false;
    if (!table.isConnected) return;
    if (mine === number && !answer) return; // the lamp says that the server is away; the next scroll asks again
    if (mine === number && answer) {
      for (let chunk = from; chunk <= to; chunk += 1)
        keep(chunk, answer.rows.slice((chunk - from) * CHUNK, (chunk - from + 1) * CHUNK));
    }
    render();
    onRows();
  }
  /** @param {Record<string, string | number>} asked */
  async function ask(asked) {
    const url = changed(table.dataset.url ?? "", asked);
    const answer = await fetch(url, { headers: { "X-Requested-With": "fetch" } }).catch(() => null);
    const html = answer?.ok ? await answer.text().catch(() => null) : null;
    if (!answer || html === null) return null;
    const template = document.createElement("template");
    template.innerHTML = html;
    const rows = /** @type {HTMLElement[]} */ ([...template.content.querySelectorAll("tr[data-key]")]);
    return { rows, headers: answer.headers };
  }
  // Brings what is seen up to date. Where nobody `isReading`, new rows and a new order come in too; else the rows that
  // are there change in their places, and how many are new is told.
  /** @param {boolean} isReading */
  async function refresh(isReading) {
    const mine = number;
    const { from, to } = range();
    const shown = [...body.querySelectorAll("tr[data-key]")].map((row) => row.getAttribute("data-key"));
    /** @type {Record<string, string | number>} */
    const asked = isReading
      ? { ids: shown.slice(0, 4 * CHUNK).join("."), until: until() }
      : { offset: from * CHUNK, limit: Math.min(4, to - from + 1) * CHUNK, count: 1 };
    const answer = await ask(asked);
    if (!answer || mine !== number || !table.isConnected) return;
    const { rows, headers } = answer;
    if (isReading) change(rows);
    else {
      table.dataset.rows = headers.get("X-Rows") ?? table.dataset.rows;
      table.dataset.until = headers.get("X-Until") ?? "";
      take(rows, from);
    }
    const isMore = isReading ? table.ariaRowCount === "-1" : headers.get("X-More") === "1";
    const counted = { num: total(), isMore, numNew: Number(headers.get("X-New")) };
    onCount({ ...counted, numNew: isReading ? counted.numNew : 0 });
    render();
    onRows();
  }
  // The same rows as they are now.
  /** @param {HTMLElement[]} rows */
  function change(rows) {
    const known = new Map([...body.children].map((row) => [row.getAttribute("data-key"), row]));
    const gone = new Set(known.keys());
    for (const row of rows) {
      const before = /** @type {HTMLElement | undefined} */ (known.get(row.dataset.key ?? ""));
      gone.delete(row.dataset.key ?? null);
      if (!before) continue;
      for (const name of ["data-place", "aria-rowindex"]) row.setAttribute(name, before.getAttribute(name) ?? "");
      patchNode(before, row);
    }
    for (const key of gone) if (key) known.get(key)?.classList.add("is-gone");
  }
  // Other rows in these places: what is the same run keeps its element.
  /** @param {HTMLElement[]} rows @param {number} from */
  function take(rows, from) {
    const known = new Map([...body.children].map((row) => [row.getAttribute("data-key"), row]));
    chunks.clear();
    rows.forEach((row, at) => {
      const before = /** @type {HTMLElement | undefined} */ (known.get(row.dataset.key ?? ""));
      if (before) patchNode(before, row);
      const chunk = from + Math.floor(at / CHUNK);
      keep(chunk, [...(at % CHUNK ? (chunks.get(chunk) ?? []) : []), before ?? row]);
    });
    if (!rows.length) chunks.set(from, []);
  }
  // Scrolls until the row is seen whole.
  /** @param {number} place */
  function reach(place) {
    if (isWhole()) return rowAt(place)?.scrollIntoView({ block: "nearest" });
    const top = place * height;
    const room = scroller.clientHeight - head;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (top + height > scroller.scrollTop + room) scroller.scrollTop = top + height - room;
    render();
  }
  /** @param {number} place */
  const rowAt = (place) =>
    /** @type {HTMLElement | null} */ (body.querySelector(`tr[data-key][data-place="${place}"]`));

  const onScroll = () => requestAnimationFrame(render);
  scroller.addEventListener("scroll", onScroll, { passive: true });
  const observer = new ResizeObserver(render);
  observer.observe(scroller);
  return {
    reset,
    refresh,
    reach,
    rowAt,
    seen,
    total,
    pageSize: () => Math.max(1, Math.floor((scroller.clientHeight - head) / height) - 1),
    isAtTop: () => scroller.scrollTop < height,
    toTop: () => scroller.scrollTo(0, 0),
    end() {
      clearTimeout(timer);
      observer.disconnect();
    },
  };
}

// The run that the checkbox of a row selects.
/** @param {Element | null | undefined} row */
export const runOf = (row) =>
  /** @type {HTMLInputElement | null} */ (row?.querySelector(".row-check") ?? null)?.value ?? "";

// Makes the rows of the body these, in this order; rows that stay are not touched.
/** @param {HTMLElement} body @param {(HTMLElement | null)[]} nodes */
function arrange(body, nodes) {
  const rows = nodes.filter((node) => node !== null);
  const wanted = new Set(/** @type {Element[]} */ (rows));
  for (const child of [...body.children]) if (!wanted.has(child)) child.remove();
  order(body, rows);
}

// Columns that stay when one scrolls sideways stand beside each other.
/** @param {HTMLTableElement} table */
export function pin(table) {
  const columns = /** @type {HTMLElement[]} */ ([...table.querySelectorAll("col")]);
  const widths = columns.map((one) => Number(one.getAttribute("width") ?? one.dataset.least ?? 0));
  table.style.minWidth = `${widths.reduce((sum, width) => sum + width, 0)}px`;
  let left = 0;
  const heads = [...(table.tHead?.rows[0].cells ?? [])];
  heads.forEach((head, index) => {
    if (!head.classList.contains("pinned")) return;
    table.style.setProperty(`--left-${index}`, `${left}px`);
    left += head.offsetWidth;
  });
  /** @type {HTMLElement} */ (table.parentElement).style.scrollPaddingLeft = `${left}px`;
}
