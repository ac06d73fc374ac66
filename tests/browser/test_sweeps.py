"""A sweep in Chromium: from the launch form to the comparison of its best with other seeds."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Seat
from tests.browser.test_launching import field
from tests.browser.test_pages import AXE, OPTIONS, RUN_AXE
from tests.whole.runs import Yard

pytestmark = pytest.mark.extended


@pytest.mark.timeout(600)
def test_a_sweep_is_launched_from_the_form_watched_and_its_best_launched_again(seat: Seat, office: Yard) -> None:
    page = seat.go("/launch/?sweep=1&from=example:digits")
    page.get_by_label("Name", exact=True).fill("browser-sweep")
    page.get_by_label("Nodes", exact=True).fill("1")
    page.get_by_label("Steps", exact=True).fill("30")
    field(page, "Validate every").fill("10")
    page.get_by_role("button", name="Vary Learning rate").click()
    page.get_by_role("button", name="Vary Optimizer").click()
    page.get_by_label("Trials", exact=True).fill("5")
    expect(page.locator("[data-aside]")).to_contain_text("5 trials", timeout=30_000)
    page.get_by_role("button", name="Launch sweep").click()
    expect(page.get_by_role("heading", name="browser-sweep")).to_be_visible(timeout=30_000)
    expect(page.locator(".run-progress")).to_contain_text("5 of 5 trials", timeout=300_000)
    for drawing in ("best", "parallel", "slots"):
        page.locator(f"[data-plot={drawing}]").scroll_into_view_if_needed()
        expect(page.locator(f"[data-plot={drawing}] canvas").first).to_be_visible()
    page.evaluate(AXE.read_text())
    assert [one["id"] for one in page.evaluate(RUN_AXE, OPTIONS)["violations"]] == []
    page.get_by_role("button", name="Launch the best").click()
    page.locator("#confirm-yes").click()
    expect(page).to_have_url(re.compile("/runs/compare/"), timeout=30_000)
    runs = parse_qs(urlsplit(page.url).query)["run"]
    assert len(runs) == 3
    for run in runs:
        office.post(f"/runs/{run}/stop")
