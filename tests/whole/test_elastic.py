"""A run that grows and shrinks with its cluster, through every process that there is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.browser.conftest import tiny
from tests.servers import short_folder
from tests.up_process import OURS, ROOT, new_home
from tests.whole.runs import Document, Yard, points, until
from tests.whole.test_recovery import said
from tests.whole.test_starting_again import started

RELATIVE = 1e-5
COMPARED = 1_500  # steps; rounding in another order adds up


def elastic(name: str, nodes: Any) -> Document:
    spec: Document = tiny(name, steps=30_000, batch_size=12, validate_every_steps=0)
    spec |= {"resources": {"nodes": nodes, "accelerator": "cpu"}, "checkpoint": {"every_steps": 50, "keep": 3}}
    return spec


@contextmanager
def joined(yard: Yard, home: Path, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """A node of another home, which joins as another machine does and shares the folder of checkpoints."""
    cluster = yard.get("/clusters")["items"][0]
    token = yard.post(f"/clusters/{cluster['id']}/join-tokens")["token"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(OURS)}
    environment |= {
        "TRAINYARD_HOME": str(home), "TRAINYARD_JOIN": token,
        "TRAINYARD_CHECKPOINTS": str(yard.up.home / "checkpoints"),
    }  # fmt: skip
    words = ["node", "--server", yard.up.url, "--name", name, "--slots", "1"]
    process = subprocess.Popen([sys.executable, "-m", "trainyard", *words], cwd=ROOT, env=environment)
    try:
        yield process
    finally:
        end_tree(process)


def end_tree(process: subprocess.Popen[bytes], number: int = signal.SIGKILL) -> None:
    """End a node with all that it has started, as a machine that loses its power."""
    if process.poll() is not None:
        return
    tree = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
    for one in tree:
        if one.is_running():
            os.kill(one.pid, number)
    process.wait(20)


def shape(yard: Yard, run: str) -> tuple[str, int]:
    """The status of the run, and the number of nodes that its newest attempt trains on."""
    document = yard.run(run)
    attempts = yard.get(f"/runs/{run}/attempts")["items"]
    return document["status"], len(attempts[-1]["placements"]) if attempts else 0


def trains_on(yard: Yard, run: str, number: int) -> bool:
    """Whether the newest attempt is on so many nodes and has taken a step."""
    if shape(yard, run) != ("RUNNING", number):
        return False
    newest = yard.get(f"/runs/{run}/attempts")["items"][-1]["fence"]
    curves = yard.get(f"/runs/{run}/series/data", name="train/loss", points=20)["series"]
    return any(curve["attempt"] == newest for curve in curves)


@pytest.mark.extended  # tests/runs/life/reconcile/test_resizing.py decides, and checkpoints/test_resuming.py trains on
@pytest.mark.timeout(600)
def test_a_run_follows_its_cluster_and_loses_no_step() -> None:
    with short_folder("ty-elastic-") as folder, started(new_home(folder), "2") as yard:
        for node in yard.get("/nodes")["items"]:
            assert yard.http.patch(f"/nodes/{node['id']}", json={"slots": 1}).status_code == 200
        run = yard.submit(elastic("elastic", {"min": 1, "max": 3}))
        until(lambda: trains_on(yard, run, 2))
        with joined(yard, folder / "third", "third") as node:
            until(lambda: any(one["name"] == "third" and one["is_in_contact"] for one in yard.get("/nodes")["items"]))
            since = time.monotonic()
            until(lambda: trains_on(yard, run, 3), 60)
            print(f"it trained on three nodes {time.monotonic() - since:.1f} s after the third had joined", flush=True)
            assert "Node third is free: the run grows from 2 to 3 nodes." in said(yard, run, "resizing")[0]

            third = next(one for one in yard.get("/nodes")["items"] if one["name"] == "third")
            yard.post(f"/nodes/{third['id']}/drain")
            until(lambda: trains_on(yard, run, 2), 60)
            assert "Node third is drained: the run shrinks from 3 to 2 nodes." in said(yard, run, "resizing")[1]
            assert not said(yard, run, "restarting") and yard.run(run)["restarts"]["total"] == 0
            assert_unbroken(yard, run)

            yard.post(f"/nodes/{third['id']}/enable")
            until(lambda: trains_on(yard, run, 3), 60)
            end_tree(node)
            since = time.monotonic()
            until(lambda: trains_on(yard, run, 2), 60)
            print(f"it trained on two nodes {time.monotonic() - since:.1f} s after the third had died", flush=True)
        assert len(said(yard, run, "restarting")) == 1 and yard.run(run)["status"] == "RUNNING"
        losses = points(yard, run, "train/loss")
        yard.post(f"/runs/{run}/stop")
        yard.wait_for_end(run)

        undisturbed = yard.submit({**elastic("undisturbed", 1), "train": elastic("x", 1)["train"]})
        yard.wait_for_step(undisturbed, min(max(losses), 3_000), 300)
        yard.post(f"/runs/{undisturbed}/stop")
        yard.wait_for_end(undisturbed)
        same = points(yard, undisturbed, "train/loss")
        both = [step for step in sorted(losses.keys() & same.keys()) if step <= COMPARED]
        assert len(both) >= 200
        furthest = max(abs(losses[step] - same[step]) / abs(same[step]) for step in both)
        assert furthest < RELATIVE
        print(f"{len(both)} losses differ by at most {furthest:.2e} of their value", flush=True)


def assert_unbroken(yard: Yard, run: str) -> None:
    """Each step up to the last is there, and of each only one attempt's: nothing was trained twice."""
    steps = sorted(points(yard, run, "train/loss"))
    assert steps == list(range(1, len(steps) + 1))
    time_use = yard.run(run)["time"]
    assert time_use["recomputed_s"] == 0.0 and time_use["restart_s"] > 0.0
