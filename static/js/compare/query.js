// The page's address: which runs are compared, and how the list and the specs show them.

export const runsIn = () => new URLSearchParams(location.search).getAll("run");

// Those that are taken out of what a filter finds.
export const runsOut = () => new URLSearchParams(location.search).getAll("without");

// The query with these parameters changed; an empty one is left out, a list is repeated.
/** @typedef {Record<string, string | string[]>} Changes */
/** @param {string} search @param {Changes} changes */
export function withQuery(search, changes) {
  const query = new URLSearchParams(search);
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    for (const one of [value].flat()) if (one) query.append(name, one);
  }
  return `?${query}`;
}

/** @param {Changes} changes */
export function change(changes) {
  history.replaceState(history.state, "", withQuery(location.search, changes));
}
