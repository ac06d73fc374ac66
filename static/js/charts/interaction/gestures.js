// What a pointer does over a plot. A drag chooses a stretch; with Shift, or with the middle button, it pans; with Ctrl
// the wheel zooms; two fingers pinch.
const CLICK_PX = 4;

// over: the element; on: {hover(left, top), leave(), choose(from, to), chosen(from, to), pan(pixels), settle(),
// zoom(left, factor), reset()}. Returns its end.
export function listen(over, on) {
  const down = new Map(); // pointer -> where it is
  let drag = null; // {isPan, from}
  let spread = 0;

  const at = (event) => {
    const box = over.getBoundingClientRect();
    return { left: Math.min(Math.max(event.clientX - box.left, 0), box.width), top: event.clientY - box.top };
  };
  function onDown(event) {
    if (event.target !== over || event.button > 1) return;
    down.set(event.pointerId, at(event));
    over.setPointerCapture(event.pointerId);
    if (event.button === 1) event.preventDefault(); // the middle button would scroll
    if (down.size === 2) {
      drag = null;
      on.choose(null);
      spread = apart(down);
    } else if (event.pointerType !== "touch") {
      drag = { isPan: event.shiftKey || event.button === 1, from: at(event).left, last: at(event).left };
    }
  }
  function onMove(event) {
    const { left, top } = at(event);
    if (down.has(event.pointerId)) down.set(event.pointerId, { left, top });
    if (down.size === 2) return pinch();
    if (drag?.isPan) {
      on.pan(drag.last - left);
      drag.last = left;
    } else {
      if (drag && Math.abs(left - drag.from) >= CLICK_PX) on.choose(drag.from, left);
      if (event.target === over) on.hover(left, top);
    }
  }
  function pinch() {
    const now = apart(down);
    const [one, other] = [...down.values()];
    if (spread > 0 && now > 0) on.zoom((one.left + other.left) / 2, spread / now);
    spread = now;
  }
  function onUp(event) {
    if (!down.delete(event.pointerId)) return;
    const { left } = at(event);
    const done = drag;
    drag = null;
    on.choose(null);
    if (!done) return event.type === "pointerup" && on.hover(left, at(event).top);
    if (event.type !== "pointerup") return on.settle();
    if (done.isPan) on.settle();
    else if (Math.abs(left - done.from) >= CLICK_PX) on.chosen(Math.min(done.from, left), Math.max(done.from, left));
  }
  function onLeave(event) {
    if (!down.size && event.pointerType !== "touch") on.leave();
  }
  function onWheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    on.zoom(at(event).left, Math.exp(Math.max(-60, Math.min(60, event.deltaY)) / 150));
  }
  const listeners = {
    pointerdown: onDown,
    pointermove: onMove,
    pointerup: onUp,
    pointercancel: onUp,
    pointerleave: onLeave,
    dblclick: (event) => event.target === over && on.reset(),
  };
  for (const [type, listener] of Object.entries(listeners)) over.addEventListener(type, listener);
  over.addEventListener("wheel", onWheel, { passive: false });
}

function apart(pointers) {
  const [one, other] = [...pointers.values()];
  return Math.abs(one.left - other.left);
}
