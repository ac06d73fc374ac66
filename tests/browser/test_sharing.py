"""A link for guests in a browser: made in the dialog, opened by somebody without an account, and revoked."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from tests.browser.conftest import Seat, new_context
from tests.browser.test_pages import AXE
from tests.browser.test_table import swept as swept  # a sweep of 40 trials
from tests.dashboard.rules.world import SWEEP
from tests.whole.runs import Yard

PHONE = {"width": 390, "height": 844}


def violations(guest: Page) -> list[str]:
    guest.evaluate(AXE.read_text())
    found = guest.evaluate("axe.run({preload: false}).then(({violations}) => violations)")
    return [f"{one['id']}: {one['nodes'][0]['html'][:160]}" for one in found]


def test_a_guest_reads_what_the_dialog_shared_and_the_page_asks_for_nothing_more(
    browser: Browser, seat: Seat, succeeded: str
) -> None:
    page = seat.go(f"/runs/{succeeded}/")
    page.get_by_role("button", name="More for").click()
    page.get_by_role("button", name="Share…").click()
    page.get_by_role("button", name="Make a link").click()
    url = page.locator("dialog .share .command code").inner_text()
    asked: list[str] = []

    def on_request(request: Request) -> None:
        asked.append(request.url)

    context = new_context(browser, viewport=PHONE)
    guest = context.new_page()
    guest.on("request", on_request)
    guest.goto(url)
    expect(guest.get_by_role("heading", name="well-done")).to_be_visible()
    expect(guest.get_by_role("img", name="train/loss over steps")).to_be_visible()
    assert guest.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert (asked, context.cookies()) == ([url], [])
    assert violations(guest) == []
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("heading", name="Links that open it")).to_have_count(0)
    answer = guest.goto(url)
    assert answer is not None and answer.status == 410
    context.close()


def test_a_sweep_that_goes_on_has_no_barrier_for_guests(browser: Browser, office: Yard) -> None:
    sweep = office.http.post("/sweeps", json={**SWEEP, "name": "goes-on"}).json()["id"]
    office.http.post(f"/sweeps/{sweep}/pause")
    context = new_context(browser, viewport=PHONE)
    guest = context.new_page()
    guest.goto(office.http.post("/share", json={"object": f"sweep/{sweep}"}).json()["url"])
    expect(guest.get_by_role("link", name="Show it anew every 30 seconds")).to_be_visible()
    assert violations(guest) == []
    context.close()
    office.http.post(f"/sweeps/{sweep}/stop")


@pytest.mark.extended
@pytest.mark.parametrize("viewport", [PHONE, {"width": 1440, "height": 900}], ids=["phone", "desk"])
def test_a_shared_sweep_has_no_barrier(browser: Browser, office: Yard, swept: str, viewport: Any) -> None:
    url = office.http.post("/share", json={"object": f"sweep/{swept}"}).json()["url"]
    context = new_context(browser, viewport=viewport)
    guest = context.new_page()
    guest.goto(url)
    expect(guest.get_by_role("region", name="Table of trials")).to_be_visible()
    assert guest.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert violations(guest) == []
    context.close()
