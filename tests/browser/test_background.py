"""A page that nobody looks at takes nothing from the server, and has everything when somebody looks again."""

from __future__ import annotations

from playwright.sync_api import Page, WebSocket, expect

from tests.browser.conftest import Seat, tiny
from tests.browser.test_launching import chart, drawn
from tests.up_process import wait_until
from tests.whole.runs import Yard

STEPS = 300
A_WHILE = "00:31"  # longer than a page in the background keeps its socket

HIDE = """hidden => {
    Object.defineProperty(document, "hidden", {configurable: true, get: () => hidden});
    document.dispatchEvent(new Event("visibilitychange"));
}"""


def open_sockets(page: Page) -> list[WebSocket]:
    """The page's sockets from now on, as a list that grows."""
    found: list[WebSocket] = []
    page.on("websocket", lambda one: found.append(one))
    return found


def test_a_page_in_the_background_pauses_and_then_catches_up(seat: Seat, yard: Yard) -> None:
    run_id = yard.submit(tiny("unwatched", steps=STEPS))
    page = seat.page
    sockets = open_sockets(page)
    page.clock.install()
    seat.go(f"/runs/{run_id}/")
    lamp = page.get_by_role("status", name="How this page gets its news")
    expect(lamp).to_have_text("live")
    expect(chart(page, "train/loss")).to_be_visible()
    page.evaluate(HIDE, True)
    page.clock.fast_forward(A_WHILE)
    expect(lamp).to_have_text("paused")
    wait_until(lambda: page.title() and all(one.is_closed() for one in sockets), "its socket is closed")
    num_sockets = len(sockets)
    assert yard.wait_for_end(run_id)["status"] == "SUCCEEDED"
    page.clock.fast_forward(A_WHILE)
    assert len(sockets) == num_sockets, "it stays quiet, however long that takes"
    page.evaluate(HIDE, False)
    expect(lamp).to_have_text("live")
    assert "since=" in sockets[-1].url
    expect(page.get_by_role("main")).to_contain_text(f"step {STEPS} of {STEPS}")
    wait_until(lambda: drawn(page, "train/loss")[-1]["step"] == STEPS, "the last step is drawn")
    assert [int(point["step"]) for point in drawn(page, "train/loss")] == list(range(1, STEPS + 1))
