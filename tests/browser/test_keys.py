"""Everything by keyboard alone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Seat, tiny
from tests.whole.runs import Yard

# What has the focus is drawn with a ring; for a radio button that is a card with words, the card is.
RING = """() => {
    const element = document.activeElement;
    if (element === document.body) return null;
    const isRinged = [element, element.closest("label")].some((one) => {
        const {outlineStyle, outlineWidth, boxShadow} = one ? getComputedStyle(one) : {};
        return one && ((outlineStyle !== "none" && parseFloat(outlineWidth) > 0) || boxShadow !== "none");
    });
    const box = element.getBoundingClientRect();
    return {name: element.outerHTML.slice(0, 80), isRinged,
            isSeen: box.width > 0 && box.bottom > 0 && box.top < innerHeight};
}"""


def test_ctrl_k_jumps_to_the_run_of_just_that_name(seat: Seat, office: Yard, succeeded: str) -> None:
    office.submit(tiny("well-done-later", steps=1))
    page = seat.go("/jobs/")
    wait_until_alive(page)
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog", name="Search or jump")).to_be_visible()
    page.keyboard.type("well-done")
    page.keyboard.press("Enter")  # before the answer came
    expect(page).to_have_url(re.compile(rf"/runs/{succeeded}/(\?.*)?$"))  # its view may stand behind it


def test_ctrl_k_does_what_the_page_has_a_button_for_and_knows_what_was_open_lately(seat: Seat, succeeded: str) -> None:
    page = seat.go(f"/runs/{succeeded}/")
    page.evaluate("localStorage.setItem('recent', '{')")  # somebody else's, or damaged
    page.reload()
    wait_until_alive(page)
    palette = page.get_by_role("dialog", name="Search or jump")
    page.keyboard.press("Control+k")
    page.keyboard.type("thme")
    expect(palette.get_by_role("option", selected=True)).to_contain_text("Theme")
    page.keyboard.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.context.clear_cookies(name="theme")  # which others share
    page.keyboard.press("Control+k")
    with page.expect_response(re.compile(r"q=clone$")):
        page.keyboard.type("clone")
    expect(palette.get_by_role("option", selected=True)).to_contain_text("Clone")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(rf"/launch/\?from=.*{succeeded}"))
    wait_until_alive(page)
    page.keyboard.press("Control+k")
    first = palette.get_by_role("option").first
    expect(first).to_contain_text("well-done")
    expect(first).to_contain_text("lately")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(rf"/runs/{succeeded}/"))


def test_g_and_a_letter_go_to_a_page_unless_somebody_types(seat: Seat) -> None:
    page = seat.go("/jobs/")
    wait_until_alive(page)
    page.keyboard.type("gr")
    expect(page).to_have_url(f"{seat.url}/runs/")
    wait_until_alive(page)
    page.keyboard.press("/")
    expect(page.get_by_label("Filter by words or fields")).to_be_focused()
    page.keyboard.type("gj")
    expect(page.get_by_label("Filter by words or fields")).to_have_value("gj")


def test_a_question_mark_shows_the_keys(seat: Seat) -> None:
    page = seat.go("/")
    wait_until_alive(page)
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    expect(keys).to_contain_text("Search or jump")
    for part in ("Everywhere", "A table", "A chart", "A log"):
        expect(keys.get_by_role("heading", name=part, exact=True)).to_be_visible()
    assert keys.locator(".keys-scroll").evaluate("(part) => part.scrollWidth <= part.clientWidth"), (
        "none is off the side"
    )
    expect(keys.get_by_role("heading").nth(1)).to_have_text("Everywhere")
    page.keyboard.press("Escape")
    expect(keys).to_be_hidden()


def test_the_keys_of_the_page_at_hand_come_first(seat: Seat) -> None:
    page = seat.go("/runs/")
    wait_until_alive(page)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys").get_by_role("heading").nth(1)).to_have_text("A table")


@pytest.mark.parametrize("path", ["/", "/launch/"])
def test_the_focus_is_seen_wherever_it_goes(path: str, seat: Seat) -> None:
    page = seat.go(path)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name=re.compile("^Skip"))).to_be_in_viewport()
    for _ in range(24):
        page.keyboard.press("Tab")
        focus = page.evaluate(RING)
        if focus is None:  # behind the last one it leaves the page
            break
        assert focus["isRinged"], focus
        assert focus["isSeen"], focus


def wait_until_alive(page: Page) -> None:
    """Return when the page's modules listen to keys; the lamp is the last of them."""
    expect(page.get_by_role("status", name="How this page gets its news")).to_have_text("live")
