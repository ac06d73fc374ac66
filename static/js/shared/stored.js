// What a page keeps in this browser, as JSON. Storage may be off, and others may have written there.

/** @param {"localStorage" | "sessionStorage"} kind @param {string} key @returns {any} null where nothing can be read */
export function stored(kind, key) {
  try {
    return JSON.parse(window[kind].getItem(key) ?? "null");
  } catch {
    return null;
  }
}

/** @param {"localStorage" | "sessionStorage"} kind @param {string} key @param {unknown} value null: nothing */
export function store(kind, key, value) {
  try {
    if (value === null) window[kind].removeItem(key);
    else window[kind].setItem(key, JSON.stringify(value));
  } catch {
    // It is off, or full: the page does without.
  }
}
