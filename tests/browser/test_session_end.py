"""A session that ends while a page is open: the page says so, asks nothing meanwhile, and keeps what was typed."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import Seat, sitting, tiny
from tests.up_process import Up
from tests.whole.runs import Yard

STEP = re.compile(r"step [\d,]+ of")
PASSWORD = "correct horse battery"


@pytest.fixture
def mary(browser: Browser, running_trainyard: Up, office: Yard, request: pytest.FixtureRequest) -> Iterator[Seat]:
    """Somebody who has a password and signed in."""
    made = office.http.post("/projects/default/invitations", json={"role": "member"}).raise_for_status().json()
    name = f"mary-{made['id']}"
    with sitting(browser, running_trainyard.url) as seat:
        page = seat.go(f"/invitations/{made['secret']}/")
        page.get_by_label("User name").fill(name)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button").click()
        expect(page).to_have_url(f"{running_trainyard.url}/")
        seat.watch.expect("401", "422", "WebSocket")
        yield seat
    office.http.delete(f"/projects/default/members/{name}").raise_for_status()


def end_session(page: Page) -> None:
    (name,) = [one["name"] for one in page.context.cookies() if "session" in one["name"]]  # type: ignore[typeddict-item]
    page.context.clear_cookies(name=name)


def dialog(page: Page) -> Locator:
    return page.get_by_role("dialog", name="You are signed out")


def sign_in(page: Page) -> None:
    dialog(page).get_by_label("Password").fill(PASSWORD)
    dialog(page).get_by_role("button", name="Sign in").click()
    expect(dialog(page)).to_be_hidden()


def lamp(page: Page) -> Locator:
    return page.get_by_role("status", name="How this page gets its news")


def test_the_launch_form_keeps_what_was_typed_and_goes_on(mary: Seat) -> None:
    page = mary.go("/launch/")
    expect(lamp(page)).to_have_text("live")
    end_session(page)
    page.locator("[name=name]").fill("typed-before")
    expect(dialog(page)).to_be_visible()
    expect(lamp(page)).to_have_text("signed out")
    dialog(page).get_by_label("Password").fill("not this one")
    dialog(page).get_by_role("button", name="Sign in").click()
    expect(dialog(page).get_by_role("alert")).to_contain_text("No account has this name")
    sign_in(page)
    expect(lamp(page)).to_have_text("live")
    expect(page.locator("[name=name]")).to_have_value("typed-before")
    page.get_by_role("button", name="Save as job").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("typed-before")


def test_a_form_that_is_sent_without_a_session_is_sent_after_signing_in(mary: Seat) -> None:
    page = mary.go("/launch/")
    expect(lamp(page)).to_have_text("live")
    with page.expect_response("**/launch/preview/"):
        page.locator("[name=name]").fill("sent-later")
    end_session(page)
    page.get_by_role("button", name="Save as job").click()
    expect(dialog(page)).to_be_visible()
    expect(page).to_have_url(f"{mary.url}/launch/")
    sign_in(page)
    expect(page.get_by_role("heading", level=1)).to_contain_text("sent-later")


def test_the_page_of_a_run_says_it_and_asks_nothing_meanwhile(mary: Seat, yard: Yard) -> None:
    run_id = yard.submit(tiny("watched", steps=40_000))
    page = mary.go(f"/runs/{run_id}/")
    expect(lamp(page)).to_have_text("live")
    expect(page.get_by_role("main")).to_contain_text(STEP)
    end_session(page)
    expect(dialog(page)).to_be_visible()
    expect(lamp(page)).to_have_text("signed out")
    dialog(page).get_by_role("button", name="Not now").click()
    refused = len([one for one in mary.watch.problems if one.endswith(": 401")])
    page.wait_for_timeout(4000)
    assert len([one for one in mary.watch.problems if one.endswith(": 401")]) == refused
    lamp(page).click()
    sign_in(page)
    expect(lamp(page)).to_have_text("live")
    seen = STEP.search(page.get_by_role("main").inner_text())
    assert seen
    expect(page.get_by_role("main")).not_to_contain_text(seen[0])
