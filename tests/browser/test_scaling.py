"""A scaling study in Chromium: from the menu of a run to the table of its sizes."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Seat, tiny
from tests.browser.test_pages import AXE, OPTIONS, RUN_AXE
from tests.whole.runs import Yard

pytestmark = pytest.mark.extended


@pytest.mark.timeout(600)
def test_a_study_is_asked_for_in_a_runs_menu_and_its_table_fills_while_one_looks(seat: Seat, office: Yard) -> None:
    run = office.submit(tiny("grows", steps=30))
    assert office.wait_for_end(run)["status"] == "SUCCEEDED"
    page = seat.go(f"/runs/{run}/")
    page.get_by_role("button", name="More for grows").click()
    page.get_by_role("button", name="How does it scale?").click()
    page.get_by_label("Ranks").fill("1")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("alert")).to_contain_text("ranks", timeout=30_000)  # one size is no study
    expect(page.get_by_label("Ranks")).to_have_value("1")
    page.get_by_label("Ranks").fill("1, 2")
    page.get_by_role("button", name="Start").click()
    page.get_by_role("link", name="Open it").click()
    expect(page.get_by_role("heading", name="How it scales")).to_be_visible(timeout=30_000)
    rows = page.locator("[data-key] .strong")
    expect(rows.nth(1)).not_to_have_text("–", timeout=300_000)
    study = office.get(f"/sweeps/{page.url.rstrip('/').rpartition('/')[2]}")["scaling"]
    shown = [float(text) for text in rows.all_inner_texts()]
    assert shown == pytest.approx([size["speed_up"] for size in study["sizes"]], rel=0.01)
    page.evaluate(AXE.read_text())
    assert [one["id"] for one in page.evaluate(RUN_AXE, OPTIONS)["violations"]] == []
