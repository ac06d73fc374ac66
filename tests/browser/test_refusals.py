"""What the launch form says of what cannot run: before a launch, and after one that was refused."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Seat, tiny
from tests.browser.test_launching import field
from tests.whole.runs import Yard

pytestmark = pytest.mark.browser


def test_the_reason_of_a_refused_launch_stays_when_the_cluster_changes(seat: Seat, yard: Yard) -> None:
    seat.watch.expect("422")
    page = seat.go("/launch/")
    origin = field(page, "Continue from")
    page.locator("details.advanced").evaluate_all("(all) => all.forEach((one) => { one.open = true; })")
    origin.fill("nothing@5")
    expect(forecast(page)).to_have_class(re.compile("is-red"))
    launch(page)
    expect(page.get_by_role("alert")).to_contain_text("This was not launched.")
    with page.expect_response("**/launch/preview/"):
        yard.submit(tiny("somebody-elses", steps=3))
    expect(origin).to_have_attribute("aria-invalid", "true")
    expect(origin).to_have_accessible_description(re.compile("there is no run 'nothing'"))
    expect(forecast(page)).to_have_class(re.compile("is-red"))
    origin.fill("")
    expect(origin).not_to_have_attribute("aria-invalid", "true")
    expect(forecast(page)).not_to_have_class(re.compile("is-red"))


def launch(page: Page) -> None:
    page.get_by_role("main").get_by_role("button", name="Launch", exact=True).click()


def forecast(page: Page) -> Locator:
    return page.locator(".forecast")
