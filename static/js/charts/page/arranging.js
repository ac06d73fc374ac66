// Pure: layouts of charts as people change them; plan: [{prefix, title, names}] as sections.js has planned them, of all
// charts and not only of those that fit a filter.
import { OWN } from "./sections.js";

// The layout with the chart in that section, before another one, or at its end; null where that is Pinned.
export function placed(layout, plan, key, { to, before = null }) {
  if (plan.some(({ prefix, isFixed }) => prefix === to && isFixed)) return null;
  const sections = listed(layout, plan, [to]).map((section) => {
    const names = section.names.filter((name) => name !== key);
    if (section.key !== to) return { ...section, names };
    const at = before === null ? names.length : names.indexOf(before);
    return { ...section, names: names.toSpliced(at, 0, key) };
  });
  return { ...layout, sections };
}

// By one place within its section, or (isAcross) to the section beside; null at the end.
export function moved(layout, plan, key, step, isAcross) {
  const at = plan.findIndex(({ names }) => names.includes(key));
  const { prefix, names } = plan[at] ?? { names: [] };
  if (isAcross) {
    const to = plan[at + step];
    return to ? placed(layout, plan, key, { to: to.prefix, before: step > 0 ? (to.names[0] ?? null) : null }) : null;
  }
  const place = names.indexOf(key) + step;
  if (place < 0 || place >= names.length) return null;
  return placed(layout, plan, key, { to: prefix, before: names[step > 0 ? place + 1 : place] ?? null });
}

// A series has no chart then, until it is added again; a panel is gone.
export function removed(layout, key) {
  const { [key]: panel, ...panels } = layout.panels;
  const sections = layout.sections.map((one) => ({ ...one, names: one.names.filter((name) => name !== key) }));
  return { sections, panels, removed: panel ? layout.removed : [...layout.removed, key] };
}

// A panel, new or changed; or a series that had been removed.
export function put(layout, key, panel) {
  if (!panel) return { ...layout, removed: layout.removed.filter((name) => name !== key) };
  return { ...layout, panels: { ...layout.panels, [key]: panel } };
}

// A section of one's own stands before the others.
export function withSection(layout, plan, id, title) {
  return { ...layout, sections: [{ key: OWN + id, title, names: [] }, ...listed(layout, plan)] };
}

export function renamed(layout, plan, key, title) {
  return { ...layout, sections: listed(layout, plan).map((one) => (one.key === key ? { ...one, title } : one)) };
}

// What was in it goes back to where its name says.
export function withoutSection(layout, key) {
  return { ...layout, sections: layout.sections.filter((one) => one.key !== key) };
}

export function movedSection(layout, plan, key, step) {
  const sections = listed(layout, plan);
  const at = sections.findIndex((one) => one.key === key);
  const [section] = sections.splice(at, 1);
  return { ...layout, sections: sections.toSpliced(Math.max(0, at + step), 0, section) };
}

// The sections as they stand; of those that are named here with all of their charts, of others with what was put there.
function listed({ sections }, plan, whole = []) {
  const own = new Map(sections.map((one) => [one.key, one]));
  const standing = plan
    .filter(({ isFixed }) => !isFixed)
    .map(({ prefix: key, names }) => {
      const known = own.get(key);
      own.delete(key);
      return { key, title: known?.title ?? "", names: whole.includes(key) ? names : (known?.names ?? []) };
    });
  return [...standing, ...own.values()];
}
