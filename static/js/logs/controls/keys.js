// What a key does in the log: the name of a command, or nothing.
const MOVES = {
  ArrowUp: ["step", -1],
  ArrowDown: ["step", 1],
  PageUp: ["page", -1],
  PageDown: ["page", 1],
  Home: ["first"],
  End: ["last"],
};
const LETTERS = {
  n: ["hit", 1],
  N: ["hit", -1],
  e: ["error", 1],
  E: ["error", -1],
  f: ["follow"],
  w: ["wrap"],
  y: ["link"],
  t: ["clock"],
};

// While the list of lines has the focus.
export function inList(event) {
  if (event.altKey) return null;
  if (event.ctrlKey || event.metaKey) return event.key === "c" ? ["copy"] : event.key === "a" ? ["all"] : null;
  if (MOVES[event.key]) return [...MOVES[event.key], event.shiftKey];
  if (event.key === "ArrowLeft" || event.key === "ArrowRight") return ["sideways", event.key === "ArrowLeft" ? -1 : 1];
  return { Enter: ["open"], " ": ["page", event.shiftKey ? -1 : 1], Escape: ["back"] }[event.key] ?? null;
}

// Anywhere on the page, while nobody types.
export function anywhere(event) {
  if (event.altKey || event.ctrlKey || event.metaKey) return null;
  return LETTERS[event.key] ?? null;
}
