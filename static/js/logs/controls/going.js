// Going to another place of the log: a line, an error, a hit among its neighbours and back; a line that was cut, whole.
import { MARGIN } from "../view.js";

const WHOLE = 50; // long lines that are kept whole

// The whole log, or only the lines that the search found.
export function showInPlace(view, isInPlace, index = 0) {
  view.going += 1;
  view.isInPlace = isInPlace;
  const wanted = isInPlace || !view.state.q ? view.blocks : view.hits;
  if (view.source !== wanted) {
    view.selection.clear();
    view.isFollowing = view.blocks.isFollowing = false;
    view.scroller.show(wanted, isInPlace ? Math.max(0, index - view.scroller.inView / 2) : 0);
  }
  view.onChange("state");
}

// Goes to the line that the question is about ({line: id}, {error: "next", from}); resolves to whether there is one.
// A newer request of the reader is not undone.
export async function goTo(view, question) {
  let mine = (view.going += 1);
  const place = await view.api.get("/locate", question, { missing: null });
  if (mine !== view.going) return true;
  if (!place) return false;
  view.follow(false, false);
  showInPlace(view, true, place.index);
  mine = view.going;
  if (!view.blocks.get(place.index) || !view.blocks.isKnown) {
    const limit = view.scroller.inView + 2 * MARGIN;
    await view.tail.fetch({ start: Math.max(0, place.index - Math.floor(limit / 2)), limit });
  }
  if (mine !== view.going) return true;
  view.choose(place.index, { where: "middle" });
  return true;
}

export async function unfold(view, index) {
  const line = view.source.get(index);
  const whole =
    line?.length && !view.whole.has(line.id) ? await view.api.get("/line", { id: line.id }, { missing: null }) : null;
  if (!whole) return false;
  if (view.whole.size >= WHOLE) view.whole.delete(view.whole.keys().next().value);
  view.whole.set(line.id, { ...whole, length: undefined });
  view.scroller.redraw();
  return true;
}
