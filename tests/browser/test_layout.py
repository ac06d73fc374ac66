"""Pages stand still while they load: what comes late has its room."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, ViewportSize

from tests.browser.conftest import DESK, Seat, Sit
from tests.browser.test_pages import PHONE
from tests.whole.runs import Yard

GOOD = 0.1  # https://web.dev/articles/cls calls this good
# What moved without a key or a click just before, as a share of the window times a share of its longer side.
WATCH = """
window.shifts = [];
new PerformanceObserver((list) => {
    for (const one of list.getEntries()) if (!one.hadRecentInput) window.shifts.push([one.value, named(one)]);
}).observe({ type: "layout-shift", buffered: true });
function named(one) {
    return one.sources.map(({ node }) => node?.outerHTML?.slice(0, 80) ?? node?.textContent?.slice(0, 80));
}
"""


@pytest.mark.parametrize("view", [DESK, PHONE], ids=["desk", "phone"])
def test_a_comparison_stands_still_while_its_charts_come(
    view: ViewportSize, sit: Sit, office: Yard, succeeded: str, failed: str
) -> None:
    seat: Seat = sit(view)
    seat.page.add_init_script(WATCH)
    page = seat.go(f"/runs/compare/?run={succeeded}&run={failed}")
    page.locator(".chart-card canvas").first.wait_for()
    page.locator(".connection[data-state=live]").wait_for()
    shifts = moved(page)
    assert sum(value for value, _ in shifts) < GOOD, shifts


def moved(page: Page) -> list[tuple[float, list[str]]]:
    page.wait_for_load_state("networkidle")
    shifts: list[tuple[float, list[str]]] = page.evaluate("window.shifts")
    return shifts
