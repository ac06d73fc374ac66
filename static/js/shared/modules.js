// Mounts and unmounts modules: each exports mount(element) and returns its unmount, or nothing. In the place of a
// module may stand a function that loads it: what few pages have, the others need not fetch.
let table = {};
const mounted = new Map(); // element -> unmount

export function register(modules) {
  table = { ...table, ...modules };
}

export function mountAll(root) {
  for (const element of root.querySelectorAll("[data-module]")) {
    if (mounted.has(element)) continue;
    const module = table[element.dataset.module];
    if (!module) throw new Error(`no module named ${element.dataset.module}`);
    mounted.set(element, module.mount ? begin(module, element) : beginLater(module, element));
  }
}

function begin(module, element) {
  return module.mount(element) ?? (() => {});
}

function beginLater(load, element) {
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
