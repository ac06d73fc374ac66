// The address of a table says all that it shows; what one changes by hand is a change of the address.

import { newest, show } from "../frame/search.js";
import { all } from "../shared/dom.js";

/** @typedef {{name: string, width: number, isPinned: boolean}} Chosen */

/** @param {HTMLElement} place @param {Record<string, string>} changes */
export const change = (place, changes) => show(place, changed(newest(), changes), { isNew: true });

/** @param {string} address @param {Record<string, string | number>} changes */
export function changed(address, changes) {
  const url = new URL(address, location.href);
  for (const [name, value] of Object.entries(changes)) url.searchParams.set(name, String(value));
  for (const [name, value] of [...url.searchParams]) if (!value) url.searchParams.delete(name);
  return url.href;
}

// A name as it stands in a list of the address; pages/shared/grid.py reads it.
/** @param {string} name */
export function quoted(name) {
  return /[",@!]/.test(name) ? `"${name.replace(/["\\]/g, "\\$&")}"` : name;
}

/** @param {Chosen[]} columns */
export function written(columns) {
  return columns.map((one) => quoted(one.name) + (one.width ? `@${one.width}` : "") + (one.isPinned ? "!" : "")).join();
}

const PART = /(?:"((?:[^"\\]|\\.)*)"|([^",@!]+))(?:@(\d+))?(!?)(?:,|$)/g;

// The columns as they are shown, or as they will be once the table that was asked for comes; a width only where
// somebody chose it.
/** @param {HTMLElement} table @returns {Chosen[]} */
export function columnsOf(table) {
  const asked = newest() === location.href ? "" : (new URL(newest(), location.href).searchParams.get("columns") ?? "");
  const coming = [...asked.matchAll(PART)].map(([, quoted, plain, width, pin]) => ({
    name: plain ?? quoted.replace(/\\(.)/g, "$1"),
    width: Number(width ?? 0),
    isPinned: pin === "!",
  }));
  if (coming.length) return coming;
  return all(table, "th[data-of]").map(({ dataset, classList }) => ({
    name: dataset.of ?? "",
    width: Number(dataset.width ?? 0),
    isPinned: dataset.of !== "name" && classList.contains("pinned"),
  }));
}
