"""The admin under its content-security policy: its pages work, and a script that was injected does not run."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Seat


@pytest.mark.parametrize("path", ["", "runs/user/", "runs/user/1/change/", "runs/project/add/", "runs/run/"])
def test_a_page_of_the_admin_breaks_no_rule(seat: Seat, path: str) -> None:
    page = seat.go(f"/admin/{path}")
    expect(page.get_by_role("heading").first).to_be_visible()
    assert page.evaluate("Boolean(window.Alpine)") and page.locator("[x-data]").count() > 0


def test_an_injected_script_does_not_run(seat: Seat) -> None:
    page = seat.go("/admin/")
    seat.watch.expect("Content Security Policy")
    page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.injected = true";
            document.body.append(script);
            document.body.insertAdjacentHTML("beforeend", "<img src=data:, onerror='window.injected = true'>");
        }"""
    )
    page.wait_for_timeout(300)
    assert page.evaluate("window.injected") is None
