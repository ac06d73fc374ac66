"""What the launch form says of what cannot run: before a launch, and after one that was refused."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import Seat, tiny
from tests.browser.test_launching import field
from tests.whole.runs import Yard


def test_the_reason_of_a_refused_launch_stays_when_the_cluster_changes(seat: Seat, yard: Yard) -> None:
    seat.watch.expect("422")
    page = seat.go("/launch/")
    origin = field(page, "Continue from")
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


def test_what_does_not_fit_into_memory_is_launched_by_who_confirms_it_alone(seat: Seat) -> None:
    sent: list[str] = []

    def keep(route: Route) -> None:  # and let nothing of this size reach a node
        sent.append(route.request.post_data or "")
        route.fulfill(status=204)

    page = seat.go("/launch/")
    page.route("**/launch/", keep)
    field(page, "Layers").fill("64")
    field(page, "Width").fill("32768")
    expect(forecast(page)).to_contain_text("It does not fit into memory: each of the 2 ranks would need")
    expect(forecast(page)).to_have_class(re.compile("is-red"))
    bar = page.locator(".cost-share meter")
    assert bar.evaluate("(one) => getComputedStyle(one.parentElement).color") == forecast(page).locator("svg").evaluate(
        "(one) => getComputedStyle(one).color"
    )
    launch(page)
    dialog = page.get_by_role("dialog", name="Launch hello-gpt although it does not fit?")
    expect(dialog).to_contain_text(re.compile("would need .* TiB, and the node has"))
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden()
    assert sent == []
    launch(page)
    with page.expect_request("**/launch/"):
        dialog.get_by_role("button", name="Launch anyway").click()
    expect(dialog).to_be_hidden()
    assert len(sent) == 1 and "launch-anyway" in sent[0]


def launch(page: Page) -> None:
    page.get_by_role("main").get_by_role("button", name="Launch", exact=True).click()


def forecast(page: Page) -> Locator:
    return page.locator(".forecast")
