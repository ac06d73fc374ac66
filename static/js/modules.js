// Mounts and unmounts modules: each exports mount(element) and returns its unmount, or nothing.
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
    mounted.set(element, module.mount(element) ?? (() => {}));
  }
}

// Called after elements were taken out of the page.
export function sweep() {
  for (const [element, unmount] of mounted) {
    if (element.isConnected) continue;
    mounted.delete(element);
    unmount();
  }
}
