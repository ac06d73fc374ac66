"""Scripts that keep their own state are resized, preempted, paused and interrupted, through every process there is."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import packed
from tests.servers import short_folder
from tests.up_process import new_home
from tests.whole.runs import Document, Yard, points, until
from tests.whole.test_elastic import joined, shape
from tests.whole.test_recovery import said
from tests.whole.test_starting_again import started

pytestmark = [pytest.mark.extended, pytest.mark.timeout(600)]

# It saves at SIGTERM, as docs/recovery.md tells scripts to, and logs the world size with each step.
SCRIPT = """
import json, os, signal, sys, time
import torch
import torch.distributed as dist
import trainyard

stops = []
signal.signal(signal.SIGTERM, lambda *_: stops.append(True))
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
run = trainyard.init()
folder = os.environ["TRAINYARD_CHECKPOINTS"]
path = os.path.join(folder, "state.json")
step = json.load(open(path))["step"] if os.path.exists(path) else 0

def save():
    if rank == 0:
        os.makedirs(folder, exist_ok=True)
        with open(path + ".new", "w") as file:
            json.dump({"step": step}, file)
        os.replace(path + ".new", path)

while True:
    wish = torch.tensor([float(bool(stops))])
    dist.all_reduce(wish)
    if wish.item():
        save()
        sys.exit(0 if "politely" in sys.argv else 143)
    step += 1
    if rank == 0:
        run.log({"train/loss": 1 / step, "world": world}, step=step)
    if step % 20 == 0:
        save()
    time.sleep(0.05)
"""


def script(yard: Yard, folder: Path, name: str, nodes: Any, *arguments: str, **changes: Any) -> Document:
    (folder / "train.py").write_text(SCRIPT)
    stored = yard.http.post("/bundles", content=packed(folder))
    assert stored.status_code == 201, stored.text
    code = {"sha256": stored.json()["sha256"]}
    task = {"script": "train.py", "arguments": list(arguments), "code": code, "distributed": True}
    resources = {"nodes": nodes, "processes_per_node": 1, "accelerator": "cpu"}
    return {"name": name, "resources": resources, "task": task, "limits": {"grace": "10s"}, **changes}


def step_of(yard: Yard, run: str) -> int:
    return int(yard.run(run)["step"] or 0)


def wait_for_more_steps(yard: Yard, run: str, number: int = 20) -> None:
    """Wait until the newest attempt has logged so many steps."""

    def taken() -> int:
        attempts = yard.get(f"/runs/{run}/attempts")["items"]
        fence = attempts[-1]["fence"] if attempts else 0
        curves = yard.get(f"/runs/{run}/series/data", name="train/loss", points=10_000)["series"]
        return sum(len(curve["step"]) for curve in curves if curve["attempt"] == fence)

    until(lambda: taken() >= number)


def check_nothing_is_twice_or_missing(yard: Yard, run: str) -> None:
    """Every step up to the last is there, and no step was trained again: it saved when it was asked to end."""
    steps = sorted(points(yard, run, "train/loss"))
    assert steps == list(range(1, len(steps) + 1))
    assert yard.run(run)["time"]["recomputed_s"] == 0.0


@pytest.mark.parametrize("way", ["politely", "by the signal"])
def test_a_script_grows_shrinks_makes_room_and_returns(way: str, tmp_path: Path) -> None:
    with short_folder("ty-elastic-") as folder, started(new_home(folder), "2") as yard:
        for node in yard.get("/nodes")["items"]:
            assert yard.http.patch(f"/nodes/{node['id']}", json={"slots": 1}).status_code == 200
        run = yard.submit(script(yard, tmp_path, "elastic", {"min": 1, "max": 3}, way, priority="low"))
        until(lambda: shape(yard, run) == ("RUNNING", 2))
        wait_for_more_steps(yard, run)
        with joined(yard, folder / "third", "third"):
            until(lambda: shape(yard, run) == ("RUNNING", 3))
            assert "Node third is free: the run grows from 2 to 3 nodes." in said(yard, run, "resizing")[0]
            wait_for_more_steps(yard, run)
            assert set(points(yard, run, "world").values()) == {2.0, 3.0}

            urgent = yard.submit(script(yard, tmp_path, "urgent", 2, way, priority="high"))
            until(lambda: shape(yard, urgent) == ("RUNNING", 2))
            until(lambda: shape(yard, run) == ("RUNNING", 1))
            assert "Run urgent has a higher priority and needs nodes" in said(yard, run, "resizing")[-1]
            wait_for_more_steps(yard, run)
            yard.post(f"/runs/{urgent}/stop")
            yard.wait_for_end(urgent)
            until(lambda: shape(yard, run) == ("RUNNING", 3))

            whole = yard.submit(script(yard, tmp_path, "whole", 3, way, priority="high"))
            until(lambda: shape(yard, whole) == ("RUNNING", 3))
            assert yard.run(run)["status"] == "QUEUED"
            yard.post(f"/runs/{whole}/stop")
            yard.wait_for_end(whole)
            until(lambda: shape(yard, run)[0] == "RUNNING")
            wait_for_more_steps(yard, run)
            attempts = yard.get(f"/runs/{run}/attempts")["items"]
            causes = [one["cause"]["class"] for one in attempts if one["cause"]]
            assert set(causes) <= {"resized", "preempted"} and "preempted" in causes, causes
            restarts = yard.run(run)["restarts"]
            assert (restarts["used"], restarts["total"]) == (0, 0), restarts
            yard.post(f"/runs/{run}/stop")
            assert yard.wait_for_end(run)["status"] == "CANCELLED"
            check_nothing_is_twice_or_missing(yard, run)


def rank_pids(yard: Yard, run: str) -> list[int]:
    placements = yard.get(f"/runs/{run}/attempts")["items"][-1]["placements"]
    return [int(one["pid"]) for place in placements for one in place["ranks"]]


def test_a_kill_while_a_script_is_being_paused_leaves_it_paused(yard: Yard, tmp_path: Path) -> None:
    spec = script(yard, tmp_path, "paused", 1, "politely")
    text = SCRIPT.replace("def save():", "def save():\n    if stops: time.sleep(5)")
    (tmp_path / "train.py").write_text(text)
    spec["task"]["code"]["sha256"] = yard.http.post("/bundles", content=packed(tmp_path)).json()["sha256"]
    run = yard.submit(spec)
    wait_for_more_steps(yard, run, 25)
    pids = rank_pids(yard, run)
    yard.post(f"/runs/{run}/pause")
    until(lambda: yard.run(run)["status"] == "STOPPING")
    os.kill(pids[0], signal.SIGKILL)
    until(lambda: yard.run(run)["status"] == "PAUSED")
    print(yard.run(run)["reason"]["sentence"])
    yard.post(f"/runs/{run}/resume")
    until(lambda: yard.run(run)["status"] == "RUNNING" and yard.run(run)["attempt"] == 2)
    wait_for_more_steps(yard, run)
    yard.post(f"/runs/{run}/stop")
    assert yard.wait_for_end(run)["status"] == "CANCELLED"


@pytest.mark.parametrize("way", ["politely", "by the signal"])
def test_sigterm_from_outside_is_a_failure_from_which_a_script_goes_on(yard: Yard, tmp_path: Path, way: str) -> None:
    run = yard.submit(script(yard, tmp_path, "interrupted", 2, way))
    wait_for_more_steps(yard, run, 25)
    before = step_of(yard, run)
    os.kill(rank_pids(yard, run)[0], signal.SIGTERM)
    if way == "politely":  # it ended by its own will with 0: nobody can know that it was not done
        assert yard.wait_for_end(run)["status"] == "SUCCEEDED"
        return
    until(lambda: yard.run(run)["attempt"] == 2)
    wait_for_more_steps(yard, run)
    attempts = yard.get(f"/runs/{run}/attempts")["items"]
    print(attempts[0]["cause"], said(yard, run, "restarting"))
    assert min(step for step in points(yard, run, "train/loss") if step > before), "it goes on"
    yard.post(f"/runs/{run}/stop")
    yard.wait_for_end(run)
    steps = sorted(points(yard, run, "train/loss"))
    assert steps == list(range(1, len(steps) + 1))
