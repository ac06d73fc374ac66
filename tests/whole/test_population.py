"""Population based training on two nodes: one member is killed, the population goes on, and a line of it is one run."""

from __future__ import annotations

import os
import signal

import pytest

from tests.whole.runs import FINAL, Document, Yard, small

STEPS, INTERVAL, SIZE = 600, 100, 4


def document() -> Document:
    base = small("local", steps=STEPS, batch_size=8, schedule="constant", warmup_steps=0)
    return {
        "name": "population",
        "base": {**base, "resources": {"nodes": 1, "processes_per_node": 1}},
        "space": {
            "train.learning_rate": {"low": 1e-4, "high": 3e-2, "log": True},
            "train.weight_decay": {"low": 0.0, "high": 0.3},
            "train.batch_size": {"values": [4, 8, 16]},
        },
        "objective": {"metric": "val/loss", "direction": "minimize"},
        "budget": {"trials": 10, "parallel": SIZE},
        "sampler": {"name": "population", "size": SIZE, "interval": INTERVAL, "resample": 0.0},
    }


def trials(yard: Yard, sweep: str) -> list[Document]:
    found: list[Document] = yard.get(f"/sweeps/{sweep}")["trials"]
    return found


def kill_a_rank(yard: Yard, run: str) -> None:
    yard.wait_for_step(run, 20)
    placement = yard.attempts(run)[-1]["placements"][0]
    os.kill(placement["ranks"][0]["pid"], signal.SIGKILL)


@pytest.mark.extended
def test_a_population_with_a_killed_member_goes_on_and_its_line_is_replayed_bit_for_bit(yard: Yard) -> None:
    sweep = yard.post("/sweeps", document())["id"]
    try:
        yard.wait_for(lambda: len(trials(yard, sweep)) >= SIZE, "the members were never launched")
        killed = trials(yard, sweep)[0]["run"]
        kill_a_rank(yard, killed)
        yard.wait_for(
            lambda: yard.get(f"/sweeps/{sweep}")["status"] in FINAL, lambda: yard.get(f"/sweeps/{sweep}"), 400
        )
        found = yard.get(f"/sweeps/{sweep}")
        assert found["status"] == "SUCCEEDED", found["reason"]
        assert len(yard.attempts(killed)) >= 2, "the killed one was started again"
    finally:
        if yard.get(f"/sweeps/{sweep}")["status"] not in FINAL:
            yard.post(f"/sweeps/{sweep}/stop")
    branches = {one["number"]: one for one in yard.get(f"/sweeps/{sweep}/lineage")["trials"]}
    successors = [one for one in branches.values() if one["parent"] is not None]
    assert successors, "nobody was replaced"
    for one in successors:
        assert one["number"] in branches[one["parent"]]["children"]
        assert one["start"] >= INTERVAL and one["changed"], one
    assert sum(one["state"] == "PRUNED" for one in branches.values()) == len(successors)
    last = max((one for one in successors if one["state"] == "COMPLETE"), key=lambda one: one["number"])
    expected = line_losses(yard, branches, last["number"])
    assert sorted(expected) == list(range(1, STEPS + 1))
    replay = yard.post(f"/sweeps/{sweep}/trials/{last['number']}/replay")["id"]
    ended = yard.wait_for_end(replay)
    assert ended["status"] == "SUCCEEDED", ended["reason"]
    assert yard.losses(replay) == expected


def line_losses(yard: Yard, branches: dict[int, Document], number: int) -> dict[int, set[float]]:
    """Return the losses of the steps that led to the trial, each from the trial that trained it."""
    found: dict[int, set[float]] = {}
    until, at = STEPS, number
    while True:
        branch = branches[at]
        own = yard.losses(branch["run"])
        found |= {step: values for step, values in own.items() if branch["start"] < step <= until}
        if branch["parent"] is None:
            return found
        until, at = branch["start"], branch["parent"]
