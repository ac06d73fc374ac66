// Gives an element the height that is left below it in the window, whatever stands above.
const LEAST = 420; // px; on a page with more above, the page scrolls

export function fit(element) {
  const page = document.getElementById("main");
  function place() {
    const above = element.getBoundingClientRect().top + scrollY;
    const room = innerHeight - above - parseFloat(getComputedStyle(page).paddingBottom);
    element.style.height = `${Math.max(Math.min(LEAST, innerHeight - 80), room)}px`;
  }
  const sizes = new ResizeObserver(place);
  for (const sibling of element.parentElement.children) if (sibling !== element) sizes.observe(sibling);
  addEventListener("resize", place);
  place();
  return () => {
    sizes.disconnect();
    removeEventListener("resize", place);
  };
}
