// The tab's title follows the page: a run's progress is seen while another tab is open.
/** @param {HTMLElement} element */
export function mount(element) {
  const show = () => (document.title = element.dataset.title ?? "");
  const watcher = new MutationObserver(show);
  watcher.observe(element, { attributeFilter: ["data-title"] });
  show();
  return () => watcher.disconnect();
}
