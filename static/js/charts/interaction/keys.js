// The keys of a plot that has the focus.
const PAGE = 10; // points, with Shift
const NEAR = 0.9; // of the view: beyond it a step of the crosshair moves the view along

// on: {step(number of points), pan(share), zoom(factor), reset(), open(), log(), line(1 or -1), ends(1 or -1), leave()}
// isDrawn(): whether there is a plot; without one no key means anything.
export function listenKeys(element, on, isDrawn) {
  function actionOf({ key, shiftKey }) {
    switch (key) {
      case "ArrowRight":
        return () => on.step(shiftKey ? PAGE : 1);
      case "ArrowLeft":
        return () => on.step(shiftKey ? -PAGE : -1);
      case "ArrowDown":
        return () => on.line(1);
      case "ArrowUp":
        return () => on.line(-1);
      case "[":
        return () => on.pan(-0.25);
      case "]":
        return () => on.pan(0.25);
      case "+":
      case "=":
        return () => on.zoom(0.5);
      case "-":
      case "_":
        return () => on.zoom(2);
      case "0":
        return on.reset;
      case "Home":
        return () => on.ends(-1);
      case "End":
        return () => on.ends(1);
      case "Enter":
        return on.open;
      case "l":
        return on.log;
      case "Escape":
        return on.leave;
      default:
        return null;
    }
  }
  element.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== element || !isDrawn()) return;
    const act = actionOf(event);
    if (!act || act() === false) return;
    event.preventDefault();
    event.stopPropagation();
  });
}

// The range moved so that x is in view with room before it; the same range where it is.
export function following([from, to], x, isLog) {
  const put = isLog ? Math.log : (value) => value;
  const share = (put(x) - put(from)) / (put(to) - put(from));
  if (share >= 1 - NEAR && share <= NEAR) return 0;
  return share < 0 || share > 1 ? share - 0.5 : share > NEAR ? share - NEAR : share - (1 - NEAR);
}
