// Keeps a part of the page current: fetches the partial that the page itself includes, and patches the differences in.

import { writeClocks } from "../frame/ages.js";
import { mountAll, sweep } from "../shared/modules.js";
import { on } from "./live.js";
import { patch } from "./patch.js";

const MIN_MS = 900; // between two fetches of one fragment

/** @type {Set<() => void>} */
const all = new Set();

// After a form did something: everything on the page that can be refetched is.
export function refetchAll() {
  for (const refetch of all) refetch();
}

/** Calls back whenever a form has done something; returns what ends that. @param {() => void} refetch */
export function onRefetch(refetch) {
  all.add(refetch);
  return () => void all.delete(refetch);
}

/** @param {HTMLElement} element */
export function mount(element) {
  const types = (element.dataset.on ?? "run").split(" ");
  let timer = 0;
  let lastAt = 0;
  let isFetching = false;
  let isWanted = false;

  function want() {
    isWanted = true;
    if (timer || isFetching || document.hidden) return;
    timer = setTimeout(fetchNow, Math.max(0, lastAt + MIN_MS - Date.now()));
  }
  async function fetchNow() {
    timer = 0;
    isFetching = true;
    isWanted = false;
    lastAt = Date.now();
    try {
      const url = element.dataset.fragment ?? ""; // which a filter may have changed
      const answer = await fetch(url, { headers: { "X-Requested-With": "fetch" } });
      if (answer.ok && element.isConnected && url === element.dataset.fragment) {
        patch(element, await answer.text());
        writeClocks(element);
        sweep();
        mountAll(element);
      }
    } catch {
      // The server is away; the lamp shows it, and the next message repeats the request.
    }
    isFetching = false;
    if (isWanted) want();
  }
  function onVisible() {
    if (!document.hidden && (isWanted || Date.now() - lastAt > 10_000)) want();
  }
  const stops = [...types, "again"].map((type) => on(type, want));
  document.addEventListener("visibilitychange", onVisible);
  all.add(want);
  return () => {
    clearTimeout(timer);
    all.delete(want);
    stops.forEach((stop) => stop());
    document.removeEventListener("visibilitychange", onVisible);
  };
}
