"""Pages in a real browser against a whole Trainyard: what only a browser does (origins, scripts, live fragments)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import sign_in_link
from tests.up_process import ROOT, Up


@pytest.fixture(scope="module")
def session(browser: Browser, running_trainyard: Up) -> Any:
    """The cookies of the owner."""
    context = browser.new_context()
    context.new_page().goto(sign_in_link(running_trainyard))
    cookies = context.storage_state()
    context.close()
    return cookies


@pytest.fixture
def page(browser: Browser, session: Any, running_trainyard: Up) -> Iterator[Page]:
    """A page of the owner's."""
    context = browser.new_context(base_url=running_trainyard.url, storage_state=session)
    yield context.new_page()
    context.close()


def test_the_form_says_what_is_wrong_while_one_types_and_launches_what_it_shows(page: Page) -> None:
    page.goto("/launch/")
    expect(page.locator("[data-aside]")).to_contain_text("It would start at once")
    steps = page.locator("[data-path='train.steps']")
    steps.locator("input").fill("soon")
    expect(steps.locator(".problem")).to_contain_text("must be a whole number")
    steps.locator("input").fill("3")
    expect(steps.locator(".problem")).to_be_hidden()
    page.get_by_label("Name", exact=True).fill("from-a-browser")
    page.get_by_label("Search in all fields").fill("warm-up")
    page.get_by_label("Warm-up steps", exact=True).fill("1")
    expect(page.get_by_label("Spec as YAML")).to_contain_text("name: from-a-browser")
    page.get_by_role("button", name="Launch").click()
    expect(page.get_by_role("heading", name="from-a-browser")).to_be_visible()


def test_a_folder_is_sent_as_soon_as_it_is_chosen(page: Page) -> None:
    page.goto("/launch/?from=example:own-script")
    page.set_input_files("#code-folder", ROOT / "examples/script")
    expect(page.locator("[data-upload-words]")).to_contain_text("Stored")
    expect(page.locator("[name='task.code']")).not_to_have_value("example:own-script")
    expect(page.locator("[name='task.script']")).to_have_value("train.py")


def test_an_invitation_link_lets_somebody_in(page: Page, browser: Browser, running_trainyard: Up) -> None:
    page.goto("/people/")
    page.get_by_role("button", name="Make a link").click()
    link = page.locator("[data-swap='invite'] code").inner_text()
    context = browser.new_context(base_url=running_trainyard.url)
    guest = context.new_page()
    guest.goto(link)
    guest.get_by_label("User name").fill("mary")
    guest.get_by_label("Password").fill("correct horse battery")
    guest.get_by_role("button", name="Join").click()
    expect(guest.get_by_role("button", name="Your menu")).to_be_visible()
    context.close()


def test_draining_shows_at_once_and_is_undone_from_the_toast(page: Page) -> None:
    page.goto("/nodes/local-1/")
    page.get_by_role("button", name="Drain").click()
    expect(page.get_by_role("button", name="Enable")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("button", name="Drain")).to_be_visible()
