"""A training that is asked to stop saves first, behind a step that all its ranks agree on, in every way to train."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.workers.training.checkpoints.yard import Yard, states
from tests.workers.training.ranks import series, tiny_spec, train_on

STEPS = 1_000_000


def ask_to_stop() -> None:
    """Send this rank SIGTERM once it trains, rank 1 a good while after rank 0."""
    from workers.training import loop

    original = loop.train_steps

    def train_steps(training: Any, *rest: Any) -> Any:
        timer = threading.Timer(0.3 + 0.4 * training.mesh.rank, os.kill, (os.getpid(), signal.SIGTERM))
        timer.start()
        try:
            return original(training, *rest)
        finally:
            timer.cancel()  # rank 0's word was enough: what comes behind the loop would end it as any process

    loop.train_steps = train_steps


WAYS: dict[str, dict[str, Any]] = {
    "data parallel": {},
    "sharded": {"parallel": {"shard": 2}},
    "tensor": {"parallel": {"tensor": 2}},
    "pipeline": {"parallel": {"pipeline": {"stages": 2}}},
    "local sgd": {"parallel": {"synchronization": {"kind": "local-sgd", "every_steps": 7}}},
    "diloco": {"parallel": {"synchronization": {"kind": "diloco", "every_steps": 7}}},
    "parameter server": {"parallel": {"synchronization": {"kind": "parameter-server"}}},
}


@pytest.mark.parametrize("way", WAYS)
def test_ranks_that_are_asked_at_different_times_save_behind_one_step(way: str, tmp_path: Path) -> None:
    yard = Yard(tmp_path / "checkpoints")
    more = {"steps": STEPS, "validate_every_steps": 0, "checkpoint": {"every_steps": STEPS}, **WAYS[way]}
    began = time.monotonic()
    first, second = yard.train(2, setup=ask_to_stop, **more)
    assert time.monotonic() - began < 30
    saved = [step for state, step in states(first) if state == "saved"]
    steps = [step for name, step, _, _ in first if name == "train/learning_rate" and step]
    assert saved == [steps[-1]] and 1 <= saved[0] < STEPS
    others = [step for name, step, _, _ in second if name == "rank/memory_bytes" and step]
    if way != "parameter server":  # whose ranks go at their own pace
        assert others[-1] == saved[0]
    if "synchronization" in WAYS[way].get("parallel", {}) and way != "parameter server":
        assert saved[0] % 7 == 0, "ranks that agree now and then stop where they do"


def test_what_was_saved_is_gone_on_from_as_if_nobody_had_stopped(tmp_path: Path) -> None:
    yard = Yard(tmp_path / "stopped")
    more = {"steps": 4000, "validate_every_steps": 0, "checkpoint": {"every_steps": 4000}}
    first, _ = yard.train(2, setup=ask_to_stop, **more)
    (step,) = [step for state, step in states(first) if state == "saved"]
    assert step is not None and step < 4000, "it was asked in time"
    again, _ = yard.train(2, **{**more, "steps": step + 5, "schedule": "constant"})
    assert list(series(again, "train/loss")) == [step + number for number in range(1, 6)]


def test_the_supervisor_is_told_that_nothing_is_kept_where_no_checkpoints_are(tmp_path: Path) -> None:
    said = tmp_path / "stopped.json"
    spec = tiny_spec(world=2, steps=STEPS, validate_every_steps=0, checkpoint={"every_steps": 0})
    train_on(2, spec, setup=ask_to_stop, TRAINYARD_STOPPED=str(said))
    assert json.loads(said.read_text())["saved"] is None


def test_ranks_look_a_few_times_a_second_whatever_a_step_takes() -> None:
    from workers.training.stopping import LOOK_EVERY_S, MOST_STEPS, Stopping

    stopping = Stopping.__new__(Stopping)
    for each_s, expected in ((10.0, 1), (LOOK_EVERY_S / 5, 5), (1e-9, MOST_STEPS)):
        stopping._looked, stopping._looked_at = 0, time.monotonic() - 20 * each_s
        assert stopping._steps_to_next(20) == pytest.approx(expected, rel=0.4 if expected < 100 else 1)
