"""The page of a queue: rows that are moved, and the drawing over time, which is zoomed and says what is in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Seat, tiny
from tests.whole.runs import Yard

PATH = "/nodes/clusters/local/queue/"


@pytest.fixture
def waiting(office: Yard) -> Iterator[list[str]]:
    """Three runs that wait, since every node is drained."""
    nodes = [one["id"] for one in office.get("/nodes")["items"]]
    for node in nodes:
        office.post(f"/nodes/{node}/drain")
    runs = [office.submit(tiny(f"waiter-{word}", steps=1)) for word in ("one", "two", "three")]
    yield runs
    for run in runs:
        office.post(f"/runs/{run}/stop")
    for node in nodes:
        office.post(f"/nodes/{node}/enable")


def row(page: Page, run: str) -> Locator:
    return page.locator(f"tr[data-run='{run}']")


def expect_order(page: Page, runs: list[str]) -> None:
    expect(page.locator("tr[data-run]")).to_have_count(3)
    page.wait_for_function(
        "(runs) => [...document.querySelectorAll('tr[data-run]')].map((one) => one.dataset.run).join() === runs.join()",
        arg=runs,
    )


def test_a_row_is_moved_by_dragging_and_by_keys(seat: Seat, waiting: list[str]) -> None:
    first, second, third = waiting
    page = seat.go(PATH)
    expect_order(page, waiting)
    row(page, third).locator("td[draggable]").drag_to(row(page, first))
    expect(page.get_by_text("waiter-three has the priority 51 now.")).to_be_visible()
    expect_order(page, [third, first, second])
    priority = row(page, third).get_by_label("Priority of waiter-three")
    expect(priority).to_be_focused()
    page.keyboard.press("Alt+ArrowDown")
    expect(page.get_by_text("waiter-three has the priority 50 now.")).to_be_visible()
    expect_order(page, waiting)
    expect(priority).to_have_value("50")


def test_the_drawing_is_zoomed_and_says_what_is_under_pointer_and_focus(
    seat: Seat, waiting: list[str], succeeded: str
) -> None:
    page = seat.go(PATH)
    card = page.get_by_role("region", name="Over time")
    view, words = card.locator(".gantt-view"), card.locator("[data-words]")
    bar = card.locator(f"a[href='/runs/{succeeded}/']")
    expect(words).to_contain_text("Point at a bar")
    expect(view).to_have_attribute("width", "100.00%")
    before = card.bounding_box()
    bar.focus()
    page.keyboard.press("Home")
    exact = re.compile(r"^[\w-]+: (slots? [\d, and]+|\d of \d slots) of [\w-]+, .+, measured from \d\d:\d\d:\d\d to ")
    expect(words).to_have_text(exact)
    assert "UTC" not in words.inner_text(), "as the reader's clock shows it"
    page.keyboard.press("+")
    expect(view).to_have_attribute("width", "150.00%")
    page.keyboard.press("Shift+ArrowRight")
    x = view.get_attribute("x")
    assert x is not None and float(x.rstrip("%")) < -25
    card.locator(".gantt-time").hover()
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    expect(view).to_have_attribute("width", "225.00%")
    page.reload()
    expect(view).to_have_attribute("width", "100.00%")
    for name, width in (
        ("Closer", "150.00%"),
        ("Earlier", "150.00%"),
        ("Further away", "100.00%"),
        ("Closer", "150.00%"),
        ("All", "100.00%"),
    ):
        card.get_by_role("button", name=name, exact=True).click()
        expect(view).to_have_attribute("width", width)
    after = card.bounding_box()
    assert before and after and before["height"] == after["height"], "nothing moves"


def test_the_zoom_stays_while_the_page_is_current_by_itself(seat: Seat, office: Yard, waiting: list[str]) -> None:
    page = seat.go(PATH)
    view = page.locator(".gantt-view")
    page.get_by_role("button", name="Closer", exact=True).click()
    expect(view).to_have_attribute("width", "150.00%")
    with page.expect_response(re.compile("fragment=live")):
        office.http.patch(f"/runs/{waiting[2]}", json={"priority": 70}).raise_for_status()
    expect_order(page, [waiting[2], *waiting[:2]])
    expect(view).to_have_attribute("width", "150.00%")
