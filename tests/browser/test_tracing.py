"""Steps are traced from a dialog of the run's menu."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.conftest import Seat, tiny
from tests.whole.runs import Yard


def test_the_dialog_stays_open_with_a_bad_number_and_closes_with_what_will_be_traced(seat: Seat, office: Yard) -> None:
    run_id = office.submit(tiny("to-be-traced", steps=100_000))
    office.wait_for_step(run_id, 3)
    page = seat.go(f"/runs/{run_id}/ranks/")
    page.get_by_role("button", name="More for to-be-traced").click()
    page.get_by_role("button", name="Trace steps…").click()
    dialog = page.get_by_role("dialog", name="Trace steps of to-be-traced")
    steps = dialog.get_by_label("Steps")
    expect(steps).to_be_focused()
    steps.fill("99")
    steps.press("Enter")
    expect(dialog).to_be_visible()
    steps.fill("1")
    steps.press("Enter")
    expect(dialog).to_be_hidden()
    expect(page.locator("#toasts")).to_contain_text("will be traced on 1 rank. The traces come to the Files tab.")
    page.goto(f"{seat.url}/runs/{run_id}/files/")
    stored = page.get_by_role("row").filter(has_text=".rank-0.json.gz").filter(has_text="Download")
    expect(stored).to_be_visible()
    office.post(f"/runs/{run_id}/stop")
    office.wait_for_end(run_id)
