// Sections of charts by the prefix of their names, and the order of what is in them.
const ORDER = ["train", "val", "rank", "system"];
const FIRST = ["train", "val"]; // one section, so that the first glance has both losses side by side

// The grid of the section that the metric belongs to, made from the template where it is the first of it.
export function sectionOf(name, host, template) {
  const own = name.includes("/") ? name.slice(0, name.indexOf("/")) : "others";
  const prefix = FIRST.includes(own) ? FIRST[0] : own;
  let section = [...host.children].find((one) => one.dataset.prefix === prefix);
  if (!section) {
    section = template.content.firstElementChild.cloneNode(true);
    section.dataset.prefix = prefix;
    section.querySelector("h2").textContent = prefix;
    section.querySelector("[data-by-time]").hidden = prefix !== "system";
    const after = [...host.children].find((one) => byPlace(`${one.dataset.prefix}/`, `${prefix}/`) > 0);
    host.insertBefore(section, after ?? null);
  }
  return section.querySelector(".chart-grid");
}

// Says how many charts each section has; one without any is not shown.
export function label(host, names) {
  for (const section of host.querySelectorAll("details")) {
    const shown = section.querySelectorAll(".chart-card").length;
    section.hidden = shown === 0;
    section.querySelector(".count").textContent = shown;
    if (section.dataset.prefix === FIRST[0]) section.querySelector("h2").textContent = FIRST.filter((one) => names.some((name) => name.startsWith(`${one}/`))).join(" & ");
  }
}

export function byPlace(a, b) {
  const place = (name) => {
    const at = FIRST.includes(name.split("/")[0]) ? 0 : ORDER.indexOf(name.split("/")[0]);
    return name.startsWith("others/") ? ORDER.length + 1 : at < 0 ? ORDER.length : at;
  };
  const which = (name) => FIRST.indexOf(name.split("/")[0]);
  return place(a) - place(b) || headline(a) - headline(b) || which(a) - which(b) || a.localeCompare(b, "en", { numeric: true });
}

// Within a section what people look at first comes first.
function headline(name) {
  const rest = name.slice(name.indexOf("/") + 1);
  const at = ["loss", "accuracy", "perplexity", "tokens_per_second", "samples_per_second"].indexOf(rest);
  return at < 0 ? 9 : at;
}
