"""A link for guests in a browser: made in the dialog, opened by somebody without an account, and revoked."""

from __future__ import annotations

from playwright.sync_api import Browser, Request, expect

from tests.browser.conftest import Seat, new_context
from tests.browser.test_pages import AXE

PHONE = {"width": 390, "height": 844}


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
    guest.evaluate(AXE.read_text())
    found = guest.evaluate("axe.run({preload: false}).then(({violations}) => violations.map(({id}) => id))")
    assert found == []
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("heading", name="Links that open it")).to_have_count(0)
    answer = guest.goto(url)
    assert answer is not None and answer.status == 410
    context.close()
