// A chart's corner: dragged, or moved with the arrow keys, it makes the card 1 to 4 columns wide and its plot higher
// or lower.
export const HEIGHT = 196;
const COLUMNS = 4;
const [LOWEST, HIGHEST, NOTCH] = [120, 900, 28];
const WORDS = "Size of the chart: arrow keys widen and heighten it, Enter gives it back its own";

// sizeOf() -> {columns, height}; set(size or null, isDone)
export function listenResize(handle, { sizeOf, set, columnWidth }) {
  handle.setAttribute("aria-label", WORDS);
  handle.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    event.preventDefault();
    handle.focus({ focusVisible: false });
    handle.setPointerCapture(event.pointerId);
    const [start, before, width] = [event, sizeOf(), columnWidth()];
    let size = before;
    const onMove = (move) => {
      size = bounded({
        columns: before.columns + Math.round((move.clientX - start.clientX) / width),
        height: before.height + move.clientY - start.clientY,
      });
      set(size, false);
    };
    const onUp = () => {
      handle.removeEventListener("pointermove", onMove);
      if (size !== before) set(size, true);
    };
    handle.addEventListener("pointermove", onMove);
    handle.addEventListener("lostpointercapture", onUp, { once: true });
  });
  handle.addEventListener("dblclick", () => set(null, true));
  handle.addEventListener("keydown", (event) => {
    if (event.key === "Enter") set(null, true);
    const [wider, higher] =
      { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key] ?? [];
    if (wider === undefined) return;
    event.preventDefault();
    const { columns, height } = sizeOf();
    set(bounded({ columns: columns + wider, height: height + higher * NOTCH }), true);
  });
}

export function bounded({ columns, height }) {
  return {
    columns: Math.min(COLUMNS, Math.max(1, columns)),
    height: Math.round(Math.min(HIGHEST, Math.max(LOWEST, height))),
  };
}
