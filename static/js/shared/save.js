// Hands a file to the browser's downloads.
import { make } from "./dom.js";

const KEPT_MS = 10_000; // until the browser has surely read it

/** @param {string} href @param {string} name */
export function save(href, name) {
  make("a", { href, download: name }).click();
}

/** @param {Blob} blob @param {string} name */
export function saveBlob(blob, name) {
  const href = URL.createObjectURL(blob);
  save(href, name);
  setTimeout(() => URL.revokeObjectURL(href), KEPT_MS);
}
