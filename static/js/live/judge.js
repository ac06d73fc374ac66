// What to do with a message, given the last cursor: "deliver", "drop" (seen) or "hole" (something is missing before
// it).
/** @param {import("./stream.js").Message} message @param {number | null} cursor
 * @returns {"deliver" | "drop" | "hole"} */
export function judge(message, cursor) {
  if (message.cursor === undefined || cursor === null) return "deliver";
  if (message.type === "ping") return message.cursor > cursor ? "hole" : "deliver";
  // Everything is loaded again, whatever was here: even from a store with less.
  if (message.type === "refetch") return "deliver";
  if (message.cursor < cursor) return "drop";
  // One of several of a batch, whose last one moves the cursor.
  if (message.from === message.cursor) return message.cursor > cursor ? "hole" : "deliver";
  if (message.cursor === cursor) return "drop";
  return (message.from ?? 0) > cursor ? "hole" : "deliver";
}
