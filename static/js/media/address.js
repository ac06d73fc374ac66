// What is looked at, in the page's address: `?filter=words&step=120&older=1`; a step means that all cards are at it.

export function readAddress() {
  const query = new URLSearchParams(location.search);
  const step = Number(query.get("step"));
  return {
    filter: query.get("filter") ?? "",
    isLinked: query.has("step"),
    step: query.get("step") && Number.isSafeInteger(step) ? step : null,
    isOlder: query.get("older") === "1",
  };
}

export function writeAddress({ filter, isLinked, step, isOlder }) {
  const query = new URLSearchParams();
  if (filter) query.set("filter", filter);
  if (isLinked) query.set("step", step ?? "");
  if (isOlder) query.set("older", "1");
  const text = query.toString();
  history.replaceState(history.state, "", location.pathname + (text ? `?${text}` : ""));
}
