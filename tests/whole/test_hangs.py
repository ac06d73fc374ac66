"""A rank that hangs is found in seconds, named, and ended: with a real Trainyard of two nodes."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest

from tests.whole.runs import Yard, example
from tests.whole.test_restoring import until


def pid_of(yard: Yard, run: str, rank: int) -> tuple[int, str]:
    """Return the rank's process and its node."""
    attempt = yard.get(f"/runs/{run}/attempts")["items"][-1]
    found = [
        (one["pid"], place["node"]) for place in attempt["placements"] for one in place["ranks"] if one["rank"] == rank
    ]
    return found[0]


def hung_event(yard: Yard, run: str) -> dict[str, Any] | None:
    events = yard.get(f"/runs/{run}/events")["items"]
    return next((event for event in events if event["code"] == "hang-found"), None)


@pytest.mark.timeout(300)
def test_a_stopped_rank_of_a_training_on_two_nodes_is_named_and_ended(yard: Yard) -> None:
    spec = example("hello-gpt", steps=1_000_000, validate_every_steps=0) | {"hangs": {"after": "5s"}}
    run = yard.submit({**spec, "restarts": {"max": 0}})
    yard.wait_for_step(run, 5)
    pid, node = pid_of(yard, run, 1)
    began = time.monotonic()
    os.kill(pid, signal.SIGSTOP)
    until(lambda: hung_event(yard, run), seconds=15)
    print(f"named after {time.monotonic() - began:.1f} s")
    ended = yard.wait_for_end(run)
    print(f"ended after {time.monotonic() - began:.1f} s", ended["reason"]["sentence"])
    assert time.monotonic() - began < 15
    sentence = ended["reason"]["sentence"]
    assert sentence.startswith(f"Rank 1 on {node} is stopped (SIGSTOP) at step "), sentence
    assert "; rank 0 waits for it in all_reduce (workers/training/" in sentence
    evidence = ended["reason"]["evidence"]
    assert (ended["status"], ended["reason"]["code"]) == ("FAILED", "hang")
    assert (evidence["rank"], evidence["node"], evidence["collective"]) == (1, node, "all_reduce")
    stacks = {one["rank"]: one for one in evidence["stacks"]}
    assert "stopped by a signal" in stacks[1]["state"]
    assert "workers/training/loop.py" in stacks[0]["stack"]
    assert not os.path.exists(f"/proc/{pid}")  # noqa: PTH110
