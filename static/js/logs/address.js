// What the page's address says of its log, and the other way round. Defaults are left out.
const LISTS = ["rank", "stream", "level", "attempt"];
const FLAGS = ["regex", "case", "wrap"];

export function read(search) {
  const query = new URLSearchParams(search);
  const state = {
    q: query.get("q") ?? "",
    line: query.get("line") ?? "",
    clock: ["relative", "off"].includes(query.get("clock")) ? query.get("clock") : "wall",
  };
  for (const name of LISTS) state[name] = query.getAll(name);
  for (const name of FLAGS) state[name] = query.get(name) === "1";
  return state;
}

export function write(state) {
  const query = filters(state);
  for (const name of ["q", "line"]) if (state[name]) query.set(name, state[name]);
  for (const name of FLAGS) if (state[name]) query.set(name, "1");
  if (state.clock !== "wall") query.set("clock", state.clock);
  const text = query.toString();
  return text ? `?${text}` : "";
}

// The part of it that chooses lines, as the server wants it.
export function filters(state) {
  const query = new URLSearchParams();
  for (const name of LISTS) for (const value of state[name]) query.append(name, value);
  return query;
}

// The label that the words of the search name: label:disk-full. Empty for any other words.
export const labelOf = (state) => /^label:([\w-]+)$/.exec(state.q)?.[1] ?? "";

// What the search looks for, as the server wants it.
export function sought(state) {
  const label = labelOf(state);
  if (label) return { label };
  return { q: state.q, regex: state.regex ? "true" : "", case: state.case ? "true" : "" };
}
