"""A sweep of the digits recipe on two nodes, with control killed in the middle of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.whole.runs import FINAL, Document, Yard
from tests.whole.test_command_line import trainyard

TRIALS = 12


@pytest.fixture
def sweep(yard: Yard) -> Iterator[str]:
    """The id of the example's sweep, started from the terminal."""
    started = trainyard(yard.up, "sweep", "examples/sweep-digits.yaml")
    assert started.returncode == 0, started.stderr
    sweep_id = started.stdout.strip()
    yield sweep_id
    if yard.get(f"/sweeps/{sweep_id}")["status"] not in FINAL:
        yard.post(f"/sweeps/{sweep_id}/stop")


def ended(yard: Yard, sweep: str) -> list[Document]:
    return [one for one in yard.get(f"/sweeps/{sweep}")["trials"] if one["state"] not in ("WAITING", "RUNNING")]


@pytest.mark.extended
def test_control_killed_in_mid_sweep_loses_and_doubles_no_trial(yard: Yard, sweep: str) -> None:
    for number in (1, 4, 8):
        yard.wait_for(lambda number=number: len(ended(yard, sweep)) >= number, f"{number} trials never ended", 240)  # type: ignore[misc]
        yard.kill_control()
    yard.wait_for(lambda: yard.get(f"/sweeps/{sweep}")["status"] in FINAL, lambda: yard.get(f"/sweeps/{sweep}"), 400)
    found = yard.get(f"/sweeps/{sweep}")
    assert found["status"] == "SUCCEEDED", found["reason"]
    trials = found["trials"]
    assert [one["number"] for one in trials] == list(range(TRIALS))
    runs = {row["id"]: row for row in yard.get("/runs", tag="sweep:digits-search", limit=200)["items"]}
    assert {one["run"] for one in trials} == runs.keys() and len(runs) == TRIALS, "each trial has one run"
    by_state = {state: [one for one in trials if one["state"] == state] for state in ("COMPLETE", "PRUNED")}
    assert sum(map(len, by_state.values())) == TRIALS
    assert by_state["COMPLETE"] and by_state["PRUNED"], "ASHA stops some and lets others finish"
    for one in by_state["PRUNED"]:
        assert one["pruned_at_step"] >= 50 and one["reason"].startswith("Stopped at step")
        yard.wait_for_end(one["run"])
        kept = [row["step"] for row in yard.get(f"/runs/{one['run']}/checkpoints")["items"]]
        assert kept and max(kept) >= 50, "a pruned trial keeps its checkpoint"
    best = found["best"]
    assert best["value"] == min(one["value"] for one in by_state["COMPLETE"])
    assert runs[best["run"]]["summary"]["val/loss"]["last"] == pytest.approx(best["value"])
    again = yard.post(f"/sweeps/{sweep}/launch", {"seeds": 3})["runs"]
    assert {yard.wait_for_end(run)["spec"]["train"]["seed"] for run in again} == {0, 1, 2}
