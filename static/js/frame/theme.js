// Light, dark or as the system says; kept in a cookie so that the server's first response has it.
const ORDER = ["", "light", "dark"];
/** @type {Record<string, string>} */
const NAMES = { "": "as the system", light: "light", dark: "dark" };

export function startTheme() {
  document.addEventListener("click", (event) => {
    if (!(event.target instanceof Element && event.target.closest("[data-theme-switch]"))) return;
    const root = document.documentElement;
    const next = ORDER[(ORDER.indexOf(root.dataset.theme ?? "") + 1) % ORDER.length];
    if (next) root.dataset.theme = next;
    else delete root.dataset.theme;
    remember("theme", next);
    for (const name of document.querySelectorAll("[data-theme-name]")) name.textContent = NAMES[next];
    dispatchEvent(new Event("themechange"));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("themechange")));
}

/** @param {string} name @param {string} value */
export function remember(name, value) {
  const age = value ? 31_536_000 : 0;
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `${name}=${value}; path=/; max-age=${age}; samesite=lax${secure}`;
}
