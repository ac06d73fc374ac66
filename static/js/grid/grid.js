// A table of many rows: its rows as they come into view, its keys, its selection, and what changes in it meanwhile.

import { show } from "../frame/search.js";
import { onRefetch } from "../live/fragment.js";
import { on } from "../live/live.js";
import { around, need, seek } from "../shared/dom.js";
import { change, changed } from "./address.js";
import { startColumns } from "./columns.js";
import { startHeads } from "./heads.js";
import { startKeys } from "./keys.js";
import { startSelection } from "./selection.js";
import { pin, runOf, startWindow } from "./window.js";

const MIN_MS = 2000; // between two looks at what is new: rows that come in move those below them

/** @param {HTMLElement} element */
export function mount(element) {
  const place = /** @type {HTMLElement} */ (element.closest(".grid-page"));
  const table = /** @type {HTMLTableElement | null} */ (seek(element, ".grid-view"));
  const stopLinks = startLinks(place);
  let timer = 0;
  let lastAt = Date.now();
  function soon() {
    if (timer || document.hidden) return;
    timer = setTimeout(look, Math.max(0, lastAt + MIN_MS - Date.now()));
  }
  function look() {
    timer = 0;
    lastAt = Date.now();
    refresh();
  }
  // Without a row there is no table to keep: the page is asked whether there is one now.
  let refresh = () => show(place, location.href);
  const stops = [stopLinks, ...`${element.dataset.on ?? "run ping"} again`.split(" ").map((type) => on(type, soon))];
  if (table) {
    const begun = startTable(element, table, place);
    const isGrouped = () => table.dataset.grouped !== undefined;
    // A table in groups is drawn whole: it changes while nobody reads in it.
    refresh = async () => {
      if (!isGrouped()) await begun.refresh(begun.isReading());
      else if (!begun.isReading()) await show(place, location.href, { isBack: true });
    };
    stops.push(
      begun.end,
      onRefetch(() => (isGrouped() ? show(place, location.href, { isBack: true }) : begun.refresh(false))),
    );
  }
  return () => {
    clearTimeout(timer);
    stops.forEach((stop) => stop());
  };
}

/** @param {HTMLElement} element @param {HTMLTableElement} table @param {HTMLElement} place */
function startTable(element, table, place) {
  const fresh = need(element, "[data-new]");
  const said = need(element, "[data-said]");
  const scroller = /** @type {HTMLElement} */ (table.parentElement);
  const rows = startWindow(table, { onRows, onCount });
  const selection = seek(element, ".selection-bar") && startSelection(element, rows.seen);
  const keys = startKeys(table, rows, {
    select: (row) => selection?.set([runOf(row)].filter(Boolean), true),
    menu: (head) => heads.open(head),
    fold: (row) => fold(row),
  });
  const heads = startHeads(table, place);
  startColumns(table, place);
  let isFolding = false;

  // A group is unfolded or folded where it stands.
  /** @param {HTMLElement} row */
  async function fold(row) {
    const open = row.dataset.toggled ?? "";
    if (table.dataset.grouped === undefined) {
      history.pushState(history.state, "", changed(location.href, { open }));
      table.dataset.url = changed(table.dataset.url ?? "", { open });
      return rows.refresh(false);
    }
    isFolding = true;
    await change(place, { open });
    isFolding = false;
  }

  function onRows() {
    selection?.show();
    keys?.mark();
  }
  /** @param {import("./window.js").Counted} counted */
  function onCount({ num, isMore, numNew }) {
    const noun = (/** @type {number} */ count) => `${table.dataset.noun}${count === 1 ? "" : "s"}`;
    if (!fresh.hidden || numNew) {
      fresh.hidden = !numNew;
      const words = numNew ? `${numNew} new ${noun(numNew)}` : "";
      if (fresh.textContent !== words) said.textContent = fresh.textContent = words;
    }
    const number = seek(place, "[data-number]");
    table.ariaRowCount = String(isMore ? -1 : num + 1);
    if (number) number.textContent = `${isMore ? "More than " : ""}${num.toLocaleString("en-US")} ${noun(num)}`;
  }
  // Somebody is in the table, or further down in it: nothing may move.
  function isReading() {
    return !rows.isAtTop() || scroller.contains(document.activeElement);
  }
  function onShown() {
    pin(table);
    if (!isFolding) rows.toTop();
    rows.reset();
    if (!isFolding) keys.reset();
    fresh.hidden = true;
    countAll();
  }
  // The page itself counts only so far: the rest comes behind it.
  function countAll() {
    if (table.ariaRowCount === "-1") rows.refresh(false);
  }
  table.addEventListener("click", (event) => {
    const row = around(event, ".grid-group, .grid-fold")?.closest("tr");
    if (row) fold(row);
  });
  fresh.addEventListener("click", () => {
    rows.toTop();
    table.focus();
    rows.refresh(false);
  });
  place.addEventListener("shown", onShown);
  pin(table);
  rows.reset();
  countAll();
  return {
    isReading,
    refresh: rows.refresh,
    end() {
      rows.end();
      selection?.end();
      place.removeEventListener("shown", onShown);
    },
  };
}

// Links that only change what the table shows are followed in place; Back and Forward too.
/** @param {HTMLElement} place */
function startLinks(place) {
  /** @param {MouseEvent} event */
  function onClick(event) {
    const link = /** @type {HTMLAnchorElement | null} */ (around(event, 'a[href^="?"]'));
    if (!link || event.ctrlKey || event.metaKey || event.button) return;
    event.preventDefault();
    const url = (event.shiftKey && link.dataset.add) || link.getAttribute("href") || "";
    show(place, `${location.pathname}${url}`, { isNew: true });
  }
  const onBack = () => void show(place, location.href, { isBack: true });
  place.addEventListener("click", onClick);
  addEventListener("popstate", onBack);
  return () => {
    place.removeEventListener("click", onClick);
    removeEventListener("popstate", onBack);
  };
}
