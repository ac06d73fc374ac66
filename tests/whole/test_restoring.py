"""A run that is killed in mid-way goes on from its checkpoint: through every process that there is."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import packed
from tests.whole.conftest import Losses, two_ranks
from tests.whole.runs import Yard, points, until
from workers.node.server_client import ServerClient
from workers.node.worker import sweep
from workers.transport.node_config import load_config, node_home

# Keeps a checkpoint every 10 steps; in its first life it is killed in step 35.
SCRIPT = """
import json, os, pathlib, signal, time
import trainyard

run = trainyard.init()
root, fence = pathlib.Path(os.environ["TRAINYARD_CHECKPOINTS"]), os.environ["TRAINYARD_FENCE"]
offered = json.loads(os.environ["TRAINYARD_RESTORE"])
first = 1
if offered:
    first = int(pathlib.Path(offered[0]["folder"], "step").read_text()) + 1
    run.note({"state": "restored", **{name: offered[0][name] for name in ("run", "step", "fence")}})
for step in range(first, 61):
    run.log({"train/loss": 1 / step}, step=step)
    time.sleep(0.01)
    if step == 35 and not offered:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
    if step % 10 == 0:
        folder = root / f"step-{step}.fence-{fence}"
        folder.mkdir(parents=True)
        (folder / "step").write_text(str(step))
        run.note({"state": "saved", "step": step, "fence": int(fence), "bytes": 2, "num_files": 1, "world_size": 1})
run.finish()
"""


@pytest.mark.timeout(300)
def test_a_script_that_was_killed_goes_on_from_what_it_kept(yard: Yard, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    stored = yard.http.post("/bundles", content=packed(tmp_path))
    assert stored.status_code == 201, stored.text
    task = {"script": "train.py", "code": {"sha256": stored.json()["sha256"]}}
    run = yard.submit({"name": "keeper", "resources": {"nodes": 1}, "restarts": {"max": 0}, "task": task})
    ended = yard.wait_for_end(run)
    assert (ended["status"], ended["step"]) == ("FAILED", 35)
    assert [(one["step"], one["state"], one["attempt"], one["rank"]) for one in kept(yard, run)] == [
        (30, "valid", 1, 0), (20, "valid", 1, 0), (10, "valid", 1, 0),
    ]  # fmt: skip

    yard.post(f"/runs/{run}/restart")
    ended = yard.wait_for_end(run)
    assert (ended["status"], ended["step"]) == ("SUCCEEDED", 60)
    # The newer attempt's points stand from its first step on, those of the older one before it: none twice, none lost.
    curves = yard.get(f"/runs/{run}/series/data", name="train/loss", points=10_000)["series"]
    assert [(curve["attempt"], curve["step"]) for curve in curves] == [
        (1, list(range(1, 31))), (2, list(range(31, 61))),
    ]  # fmt: skip
    sentences = {event["code"]: event["sentence"] for event in yard.get(f"/runs/{run}/events")["items"]}
    assert sentences["restored"] == "Continues from step 30 of attempt 1."
    assert sentences["starting"].endswith("from step 30 of attempt 1 where that is sound.")
    attempts = yard.get(f"/runs/{run}/attempts")["items"]
    assert [[one["step"] for one in attempt["offered"]] for attempt in attempts] == [[], [30, 20, 10]]
    by_step = {one["step"]: one for one in kept(yard, run)}
    assert [use["attempt"] for use in by_step[30]["restored_by"]] == [2]
    assert by_step[60]["attempt"] == 2
    root = yard.up.home / "checkpoints" / run
    assert sorted(path.name for path in root.iterdir()) == sorted(one["name"] for one in by_step.values())

    # Deleted, it leaves the disk when a node asks next; that they ask once a minute is all that is shortened here.
    home = node_home(yard.up.home, "local-1")
    config = load_config(home)
    assert config is not None
    sweep(root.parent, ServerClient(config))
    assert root.is_dir()
    assert yard.http.delete(f"/runs/{run}").status_code == 204
    sweep(root.parent, ServerClient(config))
    assert not root.exists()


@pytest.mark.timeout(600)
def test_a_training_that_was_killed_goes_on_as_if_nothing_had_been(yard: Yard, undisturbed: Losses) -> None:
    """Two ranks on two nodes; one is killed, the newest checkpoint is damaged, and the loss curve is the same still."""
    run = yard.submit(two_ranks("killed", checkpoint={"every_steps": 20, "keep": 3}, restarts={"max": 0}))
    until(lambda: len(sound(yard, run)) >= 2)
    placements = yard.get(f"/runs/{run}/attempts")["items"][0]["placements"]
    os.kill(placements[1]["ranks"][0]["pid"], signal.SIGKILL)
    ended = yard.wait_for_end(run)
    assert (ended["status"], ended["reason"]["code"]) == ("FAILED", "rank-killed")

    newest, before = [one["step"] for one in sound(yard, run)][:2]
    damage(yard.up.home / "checkpoints" / run / f"step-{newest}.fence-1")
    yard.post(f"/runs/{run}/restart")
    ended = yard.wait_for_end(run)
    assert (ended["status"], ended["step"]) == ("SUCCEEDED", 400), ended["reason"]
    sentences = {event["code"]: event["sentence"] for event in yard.get(f"/runs/{run}/events")["items"]}
    assert sentences["restored"] == f"Continues from step {before} of attempt 1."
    assert sentences["checkpoint-invalid"].startswith(f"The checkpoint of step {newest} of attempt 1 is not used: ")
    by_step = {one["step"]: one for one in kept(yard, run)}
    assert (by_step[newest]["state"], by_step[newest]["attempt"]) in (("invalid", 1), ("deleted", 1), ("valid", 2))
    assert [use["attempt"] for use in by_step[before]["restored_by"]] == [2]
    assert by_step[400]["degrees"]["data"] == 2
    for name in ("train/loss", "val/loss"):
        assert points(yard, run, name) == undisturbed[name], name

    # Another run goes on from its end, on one node.
    answer = yard.post(f"/runs/{run}/continue", {"overrides": {"train.steps": 420, "resources.nodes": 1}})
    ended = yard.wait_for_end(answer["id"])
    assert (ended["status"], ended["step"], ended["parent"]) == ("SUCCEEDED", 420, run), ended["reason"]
    assert min(points(yard, answer["id"], "train/loss")) == 401
    by_step = {one["step"]: one for one in kept(yard, run)}
    assert [use["run"] for use in by_step[400]["restored_by"]] == [answer["id"]]


def damage(folder: Path) -> None:
    """Flip a bit in the middle of the largest file."""
    path = max(folder.iterdir(), key=lambda one: one.stat().st_size)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def sound(yard: Yard, run: str) -> list[dict[str, Any]]:
    return [one for one in kept(yard, run) if one["valid"]]


def kept(yard: Yard, run: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = yard.get(f"/runs/{run}/checkpoints")["items"]
    return items
