"""A recipe that is stopped saves first and says so, and goes on from there when it is restarted."""

from __future__ import annotations

from datetime import datetime

import pytest

from tests.browser.conftest import tiny
from tests.whole.conftest import NUM_STEPS, Losses, two_ranks
from tests.whole.runs import Yard, points, until
from tests.whole.test_restoring import kept


@pytest.mark.timeout(300)
def test_a_stopped_training_is_restarted_from_the_step_at_which_it_stopped(yard: Yard) -> None:
    spec = tiny("stopped", steps=1_000_000, validate_every_steps=0) | {"resources": {"nodes": 2}}
    run = yard.submit({**spec, "checkpoint": {"every_steps": 1_000_000}, "limits": {"grace": "60s"}})
    until(lambda: (yard.get(f"/runs/{run}")["step"] or 0) > 20)
    yard.post(f"/runs/{run}/stop")
    ended = yard.wait_for_end(run)
    (saved,) = kept(yard, run)
    assert (ended["status"], ended["step"]) == ("CANCELLED", saved["step"])
    assert ended["reason"]["sentence"].startswith(f"Stopped as asked: saved step {saved['step']:,} and ended in ")
    assert float(ended["reason"]["evidence"]["took_s"]) < 30

    yard.post(f"/runs/{run}/restart")
    sentence = f"Continues from step {saved['step']:,} of attempt 1."
    until(lambda: sentence in [event["sentence"] for event in yard.get(f"/runs/{run}/events")["items"]])
    yard.post(f"/runs/{run}/stop")
    assert yard.wait_for_end(run)["status"] == "CANCELLED"


@pytest.mark.timeout(300)
def test_a_paused_training_goes_on_with_the_losses_of_one_that_was_not_paused(yard: Yard, undisturbed: Losses) -> None:
    run = yard.submit(two_ranks("paused", checkpoint={"every_steps": 1_000_000}, limits={"grace": "60s"}))
    until(lambda: (yard.get(f"/runs/{run}")["step"] or 0) > 20)
    assert yard.post(f"/runs/{run}/pause")["status"] == "STOPPING"
    until(lambda: yard.get(f"/runs/{run}")["status"] == "PAUSED")
    (saved,) = kept(yard, run)
    reason = yard.get(f"/runs/{run}")["reason"]
    assert reason["sentence"].startswith(f"Paused as asked: saved step {saved['step']:,} and ended in ")
    until(lambda: not any(held["run"] == run for node in yard.get("/nodes")["items"] for held in node["held"]))

    assert yard.post(f"/runs/{run}/resume")["status"] in ("QUEUED", "SCHEDULED")
    ended = yard.wait_for_end(run)
    assert (ended["status"], ended["step"], ended["attempt"]) == ("SUCCEEDED", NUM_STEPS, 2)
    time = ended["time"]
    assert sum(value for name, value in time.items() if name.endswith("_s") and name != "total_s") == pytest.approx(
        time["total_s"]
    )
    wall_s = (datetime.fromisoformat(ended["ended_at"]) - datetime.fromisoformat(ended["created_at"])).total_seconds()
    assert time["total_s"] == pytest.approx(wall_s, abs=0.01)
    assert time["paused_s"] > 0 and time["productive_s"] > 0
    assert time["recomputed_s"] == time["detection_s"] == time["restart_s"] == 0
    found = points(yard, run, "train/loss")
    assert sorted(found) == list(range(1, NUM_STEPS + 1))
    assert found == undisturbed["train/loss"]


@pytest.mark.timeout(300)
def test_a_time_limit_ends_a_training_and_says_so(yard: Yard) -> None:
    spec = tiny("bounded", steps=1_000_000, validate_every_steps=0) | {"limits": {"time": "6s"}}
    run = yard.submit(spec)
    ended = yard.wait_for_end(run)
    assert (ended["status"], ended["reason"]["code"]) == ("CANCELLED", "time-limit")
    assert ended["reason"]["sentence"].startswith("Stopped at its time limit of 6 s: saved step ")
