"""The Terminal tab in Chromium, against a run that trains."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Seat, tiny
from tests.whole.runs import Yard

pytestmark = pytest.mark.extended


@pytest.mark.timeout(300)
def test_what_is_typed_is_run_beside_the_rank_and_a_reload_shows_the_same_screen(seat: Seat, office: Yard) -> None:
    run_id = office.submit(tiny("typed-at", steps=1_000_000))
    office.wait_for_step(run_id, 2)
    page = seat.go(f"/runs/{run_id}/terminal/")
    page.get_by_role("button", name="Open terminal").click()
    screen = page.locator(".xterm-rows")
    expect(screen).to_contain_text("[rank 0] code$", timeout=60_000)
    page.keyboard.type("echo he''llo $RANK; printf '\\033[38;2;1;2;3mx\\033[0m'\n")
    expect(screen).to_contain_text("hello 0")
    page.reload()
    expect(screen).to_contain_text("hello 0", timeout=30_000)
    page.get_by_role("button", name="End session").click()
    expect(page.locator("[data-sentence]")).to_have_text("The session was ended by its person.")
    codes = [event["code"] for event in office.get(f"/runs/{run_id}/events")["items"]]
    assert {"session-began", "session-ended"} <= set(codes)
    office.post(f"/runs/{run_id}/stop")
    office.wait_for_end(run_id)
