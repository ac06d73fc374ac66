"""A run that failed says why on its page."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.conftest import Seat


def test_a_failed_script_shows_its_traceback_above_the_tabs(seat: Seat, failed: str) -> None:
    page = seat.go(f"/runs/{failed}/")
    banner = page.get_by_role("region", name=re.compile("fail", re.I))
    expect(banner).to_contain_text(re.compile("rank 0", re.I))
    traceback = banner.get_by_text("in deep")
    expect(traceback).to_be_hidden()
    banner.get_by_text("Evidence").click()
    expect(traceback).to_be_visible()
    expect(traceback).to_contain_text("RuntimeError: the boiler is cold")
    expect(banner.get_by_role("button", name="Restart")).to_be_visible()


def test_home_says_that_it_needs_somebody(seat: Seat, failed: str) -> None:
    page = seat.go("/")
    needs = page.get_by_role("region", name="Needs you")
    expect(needs.get_by_role("link", name="cold-boiler")).to_have_attribute("href", f"/runs/{failed}/")
    expect(needs).to_contain_text("the boiler is cold")
