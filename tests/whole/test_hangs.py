"""A rank that hangs is found in seconds, named, and ended: with a real Trainyard of two nodes."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import tiny
from tests.whole.runs import Yard, until
from trainyard.bundle import pack


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


@pytest.mark.extended
@pytest.mark.timeout(300)
def test_a_stopped_rank_of_a_training_on_two_nodes_is_named_and_ended(yard: Yard) -> None:
    spec = tiny("stands-still", steps=1_000_000, validate_every_steps=0) | {"resources": {"nodes": 2}}
    run = yard.submit({**spec, "hangs": {"after": "5s"}, "restarts": {"max": 0}})
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
    (attempt,) = yard.get(f"/runs/{run}/attempts")["items"]
    assert (attempt["cause"]["class"], attempt["cause"]["rank"], attempt["hang"]["kind"]) == ("hang", 1, "stopped")
    blamed = [one for one in attempt["cause"]["consequences"] if one["rank"] is not None]
    assert blamed == []  # for having waited; that a node was asked to stop may stand there
    stacks = {one["rank"]: one for one in evidence["stacks"]}
    assert "stopped by a signal" in stacks[1]["state"]
    assert "workers/training/loop.py" in stacks[0]["stack"]
    assert not os.path.exists(f"/proc/{pid}")  # noqa: PTH110


SCRIPT = """
import sys, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.ones(1)

def add_up():
    dist.all_reduce(total)

for step in range(1, 41):
    add_up()
    time.sleep(0.1)
if dist.get_rank() == 1 and "sleep" in sys.argv:
    time.sleep(3600)
if dist.get_rank() == 1 and "evaluate" in sys.argv:
    until = time.monotonic() + 8
    while time.monotonic() < until:
        sum(range(1000))
add_up()
dist.destroy_process_group()
"""


def script(yard: Yard, folder: Path, *arguments: str) -> dict[str, Any]:
    (folder / "train.py").write_text(SCRIPT)
    stored = yard.http.post("/bundles", content=pack(folder)[0])
    assert stored.status_code == 201, stored.text
    task = {"script": "train.py", "arguments": list(arguments), "code": {"sha256": stored.json()["sha256"]}}
    hangs = {"hangs": {"after": "4s"}, "restarts": {"max": 0}}
    return {"name": "gang", "resources": {"nodes": 2}, "task": task, **hangs}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("python", ["", pytest.param(sys.executable, marks=pytest.mark.extended)], ids=["warm", "cold"])
def test_a_script_whose_rank_never_enters_a_collective_is_named_with_its_line(
    yard: Yard, tmp_path: Path, python: str
) -> None:
    spec = script(yard, tmp_path, "sleep")
    spec["task"] |= {"python": python} if python else {}
    ended = yard.wait_for_end(yard.submit(spec))
    assert (ended["status"], ended["reason"]["code"]) == ("FAILED", "hang"), ended["reason"]
    sentence = ended["reason"]["sentence"]
    assert sentence.startswith("Rank 1 on local-"), sentence
    assert "has not entered all_reduce, in which rank 0 waits (train.py line 10), for more than 4 s" in sentence
    assert ended["reason"]["evidence"]["line"] == "train.py line 16"


@pytest.mark.extended
@pytest.mark.timeout(300)
def test_a_script_whose_rank_evaluates_for_long_while_the_other_waits_is_let_be(yard: Yard, tmp_path: Path) -> None:
    run = yard.submit(script(yard, tmp_path, "evaluate"))
    ended = yard.wait_for_end(run)
    assert ended["status"] == "SUCCEEDED", ended["reason"]
    assert hung_event(yard, run) is None


@pytest.mark.extended
@pytest.mark.timeout(300)
def test_a_hung_training_is_restarted_and_one_that_is_only_reported_goes_on(yard: Yard) -> None:
    spec = tiny("hung", steps=1_000_000, validate_every_steps=0) | {"resources": {"nodes": 2}}
    spec |= {"checkpoint": {"every_steps": 20}, "restarts": {"max": 1}}
    run = yard.submit({**spec, "hangs": {"after": "4s", "action": "restart"}})
    yard.wait_for_step(run, 40)
    os.kill(pid_of(yard, run, 0)[0], signal.SIGSTOP)
    until(lambda: yard.get(f"/runs/{run}")["attempt"] == 2, seconds=60)
    step = yard.get(f"/runs/{run}")["step"]
    yard.wait_for_step(run, step + 5)
    yard.post(f"/runs/{run}/stop")
    yard.wait_for_end(run)

    run = yard.submit({**spec, "hangs": {"after": "4s", "action": "notify"}})
    yard.wait_for_step(run, 10)
    pid, _ = pid_of(yard, run, 1)
    os.kill(pid, signal.SIGSTOP)
    until(lambda: hung_event(yard, run), seconds=15)
    time.sleep(3)
    seen = yard.get(f"/runs/{run}")
    assert (seen["status"], seen["attempt"], seen["lamps"]["progress"]["colour"]) == ("RUNNING", 1, "red")
    assert seen["lamps"]["progress"]["sentence"].startswith("Rank 1 on local-")
    hang = yard.get(f"/runs/{run}/attempts")["items"][0]["hang"]
    assert (hang["kind"], hang["rank"], hang["acts"]) == ("stopped", 1, False)
    os.kill(pid, signal.SIGCONT)
    until(lambda: yard.get(f"/runs/{run}/attempts")["items"][0]["hang"] is None, seconds=15)
    yard.wait_for_step(run, seen["step"] + 5)
    yard.post(f"/runs/{run}/stop")
    yard.wait_for_end(run)
