"""A page outlives the web process that drew it."""

from __future__ import annotations

import csv
import os
import signal
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Seat, tiny
from tests.browser.test_launching import chart, drawn
from tests.up_process import Up, wait_until
from tests.whole.runs import Yard

STEPS = 600


@pytest.mark.extended
def test_a_page_heals_by_itself_and_has_every_step_once(seat: Seat, yard: Yard, running_trainyard: Up) -> None:
    run_id = yard.submit(tiny("unbroken", steps=STEPS))
    page = seat.go(f"/runs/{run_id}/")
    lamp = page.get_by_role("status", name="How this page gets its news")
    expect(lamp).to_have_text("live")
    expect(chart(page, "train/loss")).to_be_visible()
    assert yard.run(run_id)["status"] == "RUNNING"
    seat.watch.expect("net::ERR_", "WebSocket connection", "series data did not come")
    page.evaluate("() => { window.isTheSamePage = true; }")
    os.kill(running_trainyard.processes()["web"], signal.SIGKILL)
    expect(lamp).to_contain_text("reconnecting")
    expect(lamp).to_have_text("live")
    assert yard.wait_for_end(run_id)["status"] == "SUCCEEDED"
    expect(page.get_by_role("main").get_by_text("succeeded", exact=True)).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text(f"step {STEPS} of {STEPS}")
    for name in ("train/loss", "train/tokens_per_second"):
        stored = yard.get(f"/runs/{run_id}/series/data", name=name, points=10_000)["series"]
        # What was missed is fetched behind the first news: on a busy machine the words above may be there before it.
        wait_until(lambda name=name: len(drawn(page, name)) >= STEPS, f"{name} is drawn whole", patience_s=30)
        points = drawn(page, name)
        assert [int(point["step"]) for point in points] == [step for part in stored for step in part["step"]]
        assert [float(point["value"]) for point in points] == [value for part in stored for value in part["value"]]
    assert [int(point["step"]) for point in drawn(page, "train/loss")] == list(range(1, STEPS + 1))
    assert page.evaluate("() => window.isTheSamePage"), "the page was loaded again"
    with page.expect_download() as download:
        chart(page, "train/loss").get_by_role("button", name="CSV").click()
    with Path(download.value.path()).open(newline="") as file:
        saved = list(csv.DictReader(file))
    assert download.value.suggested_filename == f"{run_id}-train-loss-points.csv"
    assert [(int(row["step"]), float(row["value"])) for row in saved] == [
        (point["step"], point["value"]) for point in drawn(page, "train/loss")
    ]
