// Hands on a layout: cards are moved by drag or by keys, panels made and changed in a dialog, sections named and moved;
// all of it can be undone.
import { toast } from "../../frame/toasts.js";
import { make, say } from "../../shared/dom.js";
import { parsed } from "../lines/expressions.js";
import { putState } from "../settings/saving.js";
import { moved, movedSection, placed, put, removed, renamed, withoutSection, withSection } from "./arranging.js";
import { PANEL } from "./panels.js";

const MOST_OFFERED = 50; // names
const STEPS = { ArrowLeft: [-1, false], ArrowRight: [1, false], ArrowUp: [-1, true], ArrowDown: [1, true] };

export class Editing {
  // page: the Charts of charts.js
  constructor(page) {
    this.page = page;
    this.dialog = page.element.querySelector("dialog.panel-dialog:not(.note-dialog)");
    this.form = this.dialog.querySelector("form");
    const { signal } = page.over;
    const { host } = page.deck;
    host.addEventListener("click", (event) => this.onSection(event), { signal });
    host.addEventListener("keydown", (event) => this.onKey(event), { signal });
    host.addEventListener("dragstart", (event) => this.onDragStart(event), { signal });
    host.addEventListener("dragover", (event) => this.onDragOver(event), { signal });
    host.addEventListener("drop", (event) => this.onDrop(event), { signal });
    host.addEventListener("dragend", () => this.mark(null), { signal });
    page.element.addEventListener("click", (event) => this.onLayout(event), { signal });
    this.form.addEventListener("submit", (event) => this.onSave(event), { signal });
    this.form.addEventListener("input", ({ target }) => target.list && this.offer(target), { signal });
    this.form.elements.metric.addEventListener("change", () => this.addMetric(), { signal });
  }

  get layout() {
    return this.page.workspace.layout;
  }

  // All charts, be they filtered out or not.
  get plan() {
    return this.page.layout.planned(this.page.layout.keys());
  }

  change(layout, sentence = "") {
    if (!layout) return;
    this.page.workspace.lay(layout);
    if (sentence) toast(sentence, { undo: () => this.page.workspace.undo() });
  }

  remove(key) {
    this.change(removed(this.layout, key), `${this.page.panels.titleOf(key)} was removed.`);
  }

  onSection({ target }) {
    const tool = target.closest("[data-section]")?.dataset.section;
    if (!tool) return;
    const section = target.closest(".chart-section");
    const { prefix } = section.dataset;
    const { layout, plan } = this;
    if (tool === "up" || tool === "down") this.change(movedSection(layout, plan, prefix, tool === "up" ? -1 : 1));
    if (tool === "remove") this.change(withoutSection(layout, prefix), "The section was removed; its charts were not.");
    if (tool === "panel") this.open(null, prefix);
    if (tool === "more") this.page.layout.more(prefix, section.querySelectorAll(".chart-card").length);
    if (tool === "rename") this.rename(section, prefix);
    if (tool === "up" || tool === "down") target.closest("button").focus();
  }

  rename(section, prefix) {
    const [title, button] = [section.querySelector("h2"), section.querySelector('[data-section="rename"]')];
    const looks = { className: "form-control chart-section-name", maxLength: 100 };
    const field = make("input", { value: title.textContent, ...looks });
    field.setAttribute("aria-label", "Name of the section");
    const end = (isKept) => {
      field.onblur = null;
      field.replaceWith(button);
      button.focus();
      if (isKept) this.change(renamed(this.layout, this.plan, prefix, field.value.trim()));
    };
    field.onkeydown = (event) => {
      if (event.key !== "Enter" && event.key !== "Escape") return;
      event.preventDefault(); // the button, which gets the focus, would be pressed
      end(event.key === "Enter");
    };
    field.onblur = () => end(true);
    button.replaceWith(field);
    field.select();
  }

  onLayout({ target }) {
    const tool = target.closest("[data-layout]")?.dataset.layout;
    const { workspace, element } = this.page;
    if (tool === "panel") this.open(null, null);
    if (tool === "section") this.change(withSection(this.layout, this.plan, newId(), "New section"));
    if (tool === "undo") workspace.undo();
    if (tool === "reset") workspace.lay(null);
    if (tool === "project") this.saveForProject(`/api/v1/projects/${element.dataset.project}/layout`);
  }

  async saveForProject(url) {
    const answer = await putState(url, JSON.stringify(this.layout)).catch(() => null);
    if (!answer?.ok) {
      const { detail = "The server did not answer." } = (await answer?.json().catch(() => null)) ?? {};
      return toast(`The layout was not saved. ${detail}`, { isProblem: true });
    }
    this.page.workspace.projects = this.layout;
    toast("Everybody in the project who has no layout of their own has this one now.");
  }

  // With Shift and Alt, from anywhere in a card.
  onKey(event) {
    const card = event.target.closest(".chart-card");
    const [step, isAcross] = (event.shiftKey && event.altKey && STEPS[event.key]) || [];
    if (!card || !step) return;
    event.preventDefault();
    const { name } = card.dataset;
    this.change(moved(this.layout, this.plan, name, step, isAcross));
    const section = this.plan.find(({ names }) => names.includes(name));
    if (section)
      card.querySelector(".chart-live").textContent =
        `${section.title}, place ${section.names.indexOf(name) + 1} of ${section.names.length}`;
  }

  onDragStart(event) {
    if (!event.target.matches?.(".chart-head")) return;
    this.dragged = event.target.closest(".chart-card").dataset.name;
    event.dataTransfer.setData("text/plain", this.dragged);
    event.dataTransfer.effectAllowed = "move";
  }

  onDragOver(event) {
    if (!this.dragged || !placeAt(event)) return;
    event.preventDefault();
    this.mark(placeAt(event));
  }

  onDrop(event) {
    const place = placeAt(event);
    if (!this.dragged || !place) return;
    event.preventDefault();
    const { card, section } = place;
    const { names = [] } = this.plan.find(({ prefix }) => prefix === section.dataset.prefix) ?? {};
    const at = card ? names.indexOf(card.dataset.name) + Number(place.isAfter) : names.length;
    const before = names.slice(at).find((name) => name !== this.dragged) ?? null;
    const key = this.dragged;
    this.mark(null);
    this.change(placed(this.layout, this.plan, key, { to: section.dataset.prefix, before }));
  }

  // Where a card would come to lie; null: it is let go.
  mark(place) {
    for (const one of this.page.deck.host.querySelectorAll("[data-drop]")) delete one.dataset.drop;
    if (place) (place.card ?? place.section).dataset.drop = place.isAfter ? "after" : "before";
    else this.dragged = null;
  }

  // key: of the panel that is changed, null for a new one, which comes into the section.
  open(key, section) {
    this.section = section;
    this.key = key;
    const { title = "", lines = [], x = "" } = this.layout.panels[key] ?? {};
    const { elements } = this.form;
    [elements.title.value, elements.lines.value, elements.x.value] = [title, lines.join("\n"), x];
    elements.metric.value = "";
    this.dialog.querySelector("h2").textContent = key ? "Change the panel" : "Add a panel";
    this.complain("");
    this.dialog.showModal();
    elements.lines.focus();
  }

  // Names that fit what is typed, a few of however many.
  offer({ value, list }) {
    const words = value.toLowerCase();
    const fitting = [];
    for (const name of this.page.store.names.keys()) {
      if (name.toLowerCase().includes(words)) fitting.push(new Option(name));
      if (fitting.length === MOST_OFFERED) break;
    }
    list.replaceChildren(...fitting);
  }

  addMetric() {
    const { metric, lines } = this.form.elements;
    if (!this.page.store.names.has(metric.value)) return;
    lines.value += `${lines.value && !lines.value.endsWith("\n") ? "\n" : ""}${quoted(metric.value)}\n`;
    metric.value = "";
  }

  onSave(event) {
    if (event.submitter?.value === "cancel") return;
    event.preventDefault();
    const { title, lines: field, x } = this.form.elements;
    const lines = field.value.split("\n").map((line) => line.trim());
    const isNoMetric = x.value && !this.page.store.names.has(x.value);
    const problem = problemOf(lines) || (isNoMetric ? `No metric is called ${x.value}.` : "");
    this.complain(problem);
    if (problem) return field.focus();
    const panel = { title: title.value.trim(), lines: lines.filter(Boolean), x: x.value };
    const isBack = !this.key && panel.lines.length === 1 && this.layout.removed.includes(panel.lines[0]);
    const key = isBack ? panel.lines[0] : (this.key ?? PANEL + newId());
    const { plan, section } = this;
    const layout = put(this.layout, key, isBack ? null : panel);
    const first = plan.find(({ prefix }) => prefix === section)?.names[0] ?? null;
    this.dialog.close();
    this.change(!this.key && section ? placed(layout, plan, key, { to: section, before: first }) : layout);
  }

  complain(sentence) {
    say(this.form.querySelector("[role=alert]"), sentence);
  }
}

// The first line that cannot be read, in words.
function problemOf(lines) {
  if (!lines.some(Boolean)) return "Name a metric, or write an expression.";
  for (const [at, line] of lines.entries()) {
    try {
      if (line) parsed(line);
    } catch (error) {
      return `Line ${at + 1}: ${/** @type {Error} */ (error).message}.`;
    }
  }
  return "";
}

const quoted = (name) => (/^[a-z_][\w.]*(\/[\w.]+)*$/i.test(name) ? name : `"${name}"`);

const newId = () => Math.random().toString(36).slice(2, 10);

function placeAt({ target, clientX }) {
  const section = target.closest?.(".chart-section");
  const card = target.closest?.(".chart-card") ?? null;
  if (!section) return null;
  const box = card?.getBoundingClientRect();
  return { section, card, isAfter: Boolean(box) && clientX > box.left + box.width / 2 };
}
