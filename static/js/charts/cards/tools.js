// The buttons of a card: what they do, and how they say what is on.
import { copyText } from "../../shared/copy.js";
import { save, saveBlob } from "../../shared/save.js";
import { picture } from "../drawing/picture.js";

export const TOOLS = {
  menu: (card) => {
    const isOpen = card.element.classList.toggle("has-tools");
    card.element.querySelector('[data-tool="menu"]').setAttribute("aria-expanded", isOpen);
  },
  log: (card) => toggle(card, "isLogY"),
  outliers: (card) => toggle(card, "ignoreOutliers"),
  table: (card) => {
    const isShown = card.reader.toggleValues();
    card.element.querySelector('[data-tool="table"]').setAttribute("aria-pressed", isShown);
  },
  note: (card) => card.context.onNote(card.step),
  edit: (card) => card.context.onEdit(card.name),
  remove: (card) => card.context.onRemove(card.name),
  pin: (card) => card.context.onPin(card.name),
  expand: (card) => card.context.onOpen(card.isLarge ? null : card.name),
  csv: (card) => save(card.context.csvUrl(card.name), ""), // every point, named by the server
  parquet: (card) => save(card.context.parquetUrl(card.name), ""),
  png: (card) => keep(card, "png"),
  svg: (card) => keep(card, "svg"),
  link: (card) => {
    const address = new URL(location.href);
    address.searchParams.set("open", card.name);
    return copyText(address, "Copied a link that opens this chart.", "open the chart and take the address");
  },
};

async function keep(card, kind) {
  const blob = await picture(card, kind);
  if (blob) saveBlob(blob, `${card.title.replaceAll(/[^\w.-]+/g, "-")}.${kind}`);
}

export function listenTools(card) {
  card.element.addEventListener("click", (event) => {
    const tool = event.target.closest("[data-tool]")?.dataset.tool;
    if (tool) TOOLS[tool](card);
  });
}

// What is on is pressed.
export function showTools(card, { isLogY, ignoreOutliers }) {
  const pressed = {
    log: isLogY,
    outliers: ignoreOutliers,
    pin: card.context.isPinned(card.name),
    expand: card.isLarge,
  };
  card.element.querySelector('[data-tool="edit"]').hidden = !card.context.isPanel(card.name);
  for (const [tool, isOn] of Object.entries(pressed))
    card.element.querySelector(`[data-tool="${tool}"]`).setAttribute("aria-pressed", Boolean(isOn));
}

// A chart's own switch; back to the page's where both say the same. Asked with its own taken back, the page's says
// itself.
function toggle(card, what) {
  const wanted = !card.settings[what];
  card.context.change(card.name, { [what]: null });
  if (Boolean(card.context.settings(card.name)[what]) !== wanted) card.context.change(card.name, { [what]: wanted });
}
