// The tab's title and icon follow the page: a run's progress and status are seen while another tab is open.
/** @type {Record<string, string>} */
const COLOURS = {
  amber: "#f0ae45",
  blue: "#5ab0f5",
  green: "#45c983",
  grey: "#98a0ae",
  red: "#ff5b55",
  rust: "#d8965c",
  violet: "#cf8df0",
};

/** @param {HTMLElement} element */
export function mount(element) {
  const icon = /** @type {HTMLLinkElement} */ (document.querySelector("link[rel=icon]"));
  function show() {
    document.title = element.dataset.title ?? "";
    const colour = COLOURS[element.dataset.colour ?? ""];
    const picture = `<svg viewBox="0 0 32 32" xmlns="http://www.w3.org/2000/svg"><rect width="32" height="32" rx="8"
      fill="#4a43d6"/><path d="M5 24c8 0 8-13 18-13" fill="none" stroke="#fff" stroke-width="3"/><circle cx="22" cy="11"
      r="8" fill="${colour}"/></svg>`;
    if (colour) icon.href = `data:image/svg+xml,${encodeURIComponent(picture)}`;
  }
  const watcher = new MutationObserver(show);
  watcher.observe(element, { attributeFilter: ["data-title", "data-colour"] });
  show();
  return () => watcher.disconnect();
}
