"""What must not get lost in much: the first error of a million lines. (The odd step of a million is in test_charts.)"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from benchmarks.load.planting import plant_lines
from tests.browser.conftest import PATIENCE_MS, Seat, Sit
from tests.browser.test_pages import AXE, barriers
from tests.whole.runs import Yard

pytestmark = pytest.mark.extended

LINES, RANKS = 1_000_000, 8
FIRST = 700_003  # of rank 3; what rank 0 said later arrived long before it
ERROR = "torch.OutOfMemoryError: the tender is empty"
LATER = "RuntimeError: the boiler is cold"


@pytest.fixture(scope="module")
def talkative(office: Yard) -> str:
    assert FIRST % RANKS == 3 and 900_000 % RANKS == 0
    return plant_lines(office.http, "talkative", LINES, num_ranks=RANKS, planted={FIRST: ERROR, 900_000: LATER})


def test_the_first_error_of_a_million_lines_is_one_click_away(sit: Sit, talkative: str) -> None:
    seat = sit()
    page = opened(seat, talkative)
    page.get_by_role("button", name=re.compile("first error", re.I)).click()
    expect(chosen(page)).to_contain_text(ERROR)
    expect(chosen(page)).to_contain_text("3")
    neighbours = page.locator(".log-line .log-text").all_text_contents()
    assert any(f"step {FIRST - 1:>9,} rank 2" in text for text in neighbours), "it is among its neighbours in time"
    page.keyboard.press("y")
    link = page.evaluate("navigator.clipboard.readText()")
    seat.go(link.removeprefix(seat.url))
    expect(chosen(page)).to_contain_text(ERROR)


def test_by_keyboard_one_goes_from_error_to_error_and_searches_all_lines(seat: Seat, talkative: str) -> None:
    page = opened(seat, talkative)
    log = page.get_by_role("grid", name="Lines, oldest first")
    log.focus()
    page.keyboard.press("Home")
    expect(page.locator(".log-line .log-text").first).to_contain_text("step         0 rank 0")
    page.keyboard.press("e")
    expect(chosen(page)).to_contain_text(ERROR)
    page.keyboard.press("e")
    expect(chosen(page)).to_contain_text(LATER)
    page.keyboard.press("Shift+E")
    expect(chosen(page)).to_contain_text(ERROR)
    page.keyboard.press("End")
    expect(page.locator(".log-line .log-text").last).to_contain_text(f"step {LINES - 1:>9,} rank 7")
    page.keyboard.press("/")
    page.keyboard.type("step   999,992 rank 0")
    expect(page.locator("#log-found")).to_have_text("1 hit", timeout=PATIENCE_MS)
    expect(page.locator(".log-line .log-text")).to_have_count(1)


def test_the_page_of_so_long_a_log_shuts_nobody_out(sit: Sit, talkative: str) -> None:
    seat = sit()
    page = opened(seat, talkative)
    page.keyboard.press("e")
    expect(chosen(page)).to_contain_text(ERROR)
    assert seat.watch.unexpected() == []
    seat.watch.expect("")  # from here on the console has what axe does
    page.evaluate(AXE.read_text())
    assert barriers(page) == []
    page.emulate_media(color_scheme="dark")
    assert barriers(page, runOnly=["color-contrast"]) == []


def opened(seat: Seat, run_id: str) -> Page:
    page = seat.go(f"/runs/{run_id}/logs/")
    expect(page.locator(".log-line .log-text").first).to_contain_text("rank")
    return page


def chosen(page: Page) -> Locator:
    return page.get_by_role("grid", name="Lines, oldest first").locator("[aria-selected=true]")
