// Swagger's headings leave levels out below the title: here each is one higher, so that readers of the screen miss
// none.
/** @type {Record<string, string>} */
const LEVELS = { H3: "2", H4: "3", H5: "4" };
new MutationObserver(() => {
  for (const heading of document.querySelectorAll("#swagger-ui :is(h3, h4, h5):not([aria-level])"))
    heading.ariaLevel = LEVELS[heading.tagName];
}).observe(/** @type {HTMLElement} */ (document.getElementById("swagger-ui")), { childList: true, subtree: true });
