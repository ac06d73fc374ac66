"""SIGKILL of each process in mid-run: `up` restarts it, training goes on, and every point is there once."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from tests.up_process import Up, wait_until
from tests.whole.runs import Yard, example

STEPS = 900
VALIDATE_EVERY = 150
EVERY_STEP = ("train/loss", "train/step_time_s", "train/tokens_per_second", "train/learning_rate",
              "train/gradient_norm", "rank/memory_bytes", "rank/data_time_s")  # fmt: skip
VICTIMS = ("web", "ingest", "control", "local-1", "valkey")


def kill(up: Up, name: str) -> None:
    """SIGKILL the process of that name and wait for its successor."""
    pid = up.processes()[name]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: up.processes().get(name, pid) != pid, f"{name} is restarted", patience_s=20)


def check_every_step_is_there_once(yard: Yard, run_id: str) -> None:
    for name in EVERY_STEP:
        by_labels = yard.steps(run_id, name)
        assert len(by_labels) == (2 if name.startswith("rank/") else 1), by_labels.keys()
        for labels, steps in by_labels.items():
            assert steps == list(range(1, STEPS + 1)), (name, labels, len(steps))
    assert yard.steps(run_id, "val/loss") == {"[]": list(range(0, STEPS + 1, VALIDATE_EVERY))}
    for series in yard.get(f"/runs/{run_id}/series")["items"]:
        for labels, steps in yard.steps(run_id, series["name"]).items():
            assert len(steps) == len(set(steps)), (series["name"], labels)


@pytest.mark.slow
@pytest.mark.extended
def test_every_process_may_be_killed_in_mid_run_and_no_point_is_lost_or_doubled(
    running_trainyard: Up, yard: Yard
) -> None:
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(10_000)))
    print(f"CHAOS_SEED={seed}")
    choice = random.Random(seed)
    run_id = yard.submit(example("tiny-steps", steps=STEPS, validate_every_steps=VALIDATE_EVERY))
    for name in choice.sample(VICTIMS, len(VICTIMS)):
        here = yard.run(run_id)["step"] or 0
        yard.wait_for_step(run_id, min(here + choice.randrange(20, 100), STEPS - 100))
        kill(running_trainyard, name)
        time.sleep(choice.random())
    run = yard.wait_for_end(run_id)
    assert run["status"] == "SUCCEEDED", run["reason"]
    assert run["attempt"] == 1, "the ranks never stopped: there was nothing to start again"
    check_every_step_is_there_once(yard, run_id)
