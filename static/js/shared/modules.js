// Mounts and unmounts modules: each exports mount(element) and returns its unmount, or nothing. In the place of a
// module may stand a function that loads it: what few pages have, the others need not fetch.
import { all } from "./dom.js";

/** @typedef {() => void} Unmount */
/** @typedef {{mount: (element: any) => Unmount | void}} Module */
/** @typedef {() => Promise<Module>} Load */
/** @type {Record<string, Module | Load>} */
let table = {};
/** @type {Map<HTMLElement, Unmount>} */
const mounted = new Map(); // element -> unmount

/** @param {Record<string, Module | Load>} modules */
export function register(modules) {
  table = { ...table, ...modules };
}

/** @param {ParentNode} root */
export function mountAll(root) {
  for (const element of all(root, "[data-module]")) {
    if (mounted.has(element)) continue;
    const module = table[element.dataset.module ?? ""];
    if (!module) throw new Error(`no module named ${element.dataset.module}`);
    mounted.set(element, "mount" in module ? begin(module, element) : beginLater(module, element));
  }
}

/** @param {Module} module @param {HTMLElement} element @returns {Unmount} */
const begin = (module, element) => /** @type {Unmount} */ (module.mount(element) ?? (() => {}));

/** @param {Load} load @param {HTMLElement} element @returns {Unmount} */
function beginLater(load, element) {
  /** @type {Unmount | null} */
  let end = null;
  let isOver = false;
  load().then((module) => {
    if (!isOver) end = begin(module, element);
  });
  return () => {
    isOver = true;
    end?.();
  };
}

// Called after elements were taken out of the page.
export function sweep() {
  for (const [element, unmount] of mounted) {
    if (element.isConnected) continue;
    mounted.delete(element);
    unmount();
  }
}
