// What was logged under one name, as the slider counts it: in the order in which it was trained.

export function arranged(entries) {
  return [...entries].sort((a, b) => a.attempt - b.attempt || a.step - b.step || a.rank - b.rank || a.time - b.time);
}

// Which of the arranged entries stands at a step: the newest of those at or before it that no later attempt logged
// again; -1 where there is none.
export function standingAt(entries, step) {
  let found = -1;
  entries.forEach((entry, at) => {
    if (entry.superseded || entry.step > step) return;
    if (found < 0 || entry.step >= entries[found].step) found = at;
  });
  return found;
}

// Every step that some list has, ascending and once.
export const union = (lists) => [...new Set(lists.flat())].sort((a, b) => a - b);
