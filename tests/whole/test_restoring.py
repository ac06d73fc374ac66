"""A run that is killed in mid-way goes on from its checkpoint: through every process that there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import packed
from tests.whole.runs import Yard

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
    assert yard.steps(run, "train/loss") == {"[]": list(range(1, 61))}
    sentences = {event["code"]: event["sentence"] for event in yard.get(f"/runs/{run}/events")["items"]}
    assert sentences["restored"] == "Continues from step 30 of attempt 1."
    assert sentences["starting"].endswith("from step 30 of attempt 1 where that is sound.")
    offered = yard.get(f"/runs/{run}/attempts")["items"][1]
    assert offered["number"] == 2
    by_step = {one["step"]: one for one in kept(yard, run)}
    assert [use["attempt"] for use in by_step[30]["restored_by"]] == [2]
    assert by_step[60]["attempt"] == 2
    root = yard.up.home / "checkpoints" / run
    assert sorted(path.name for path in root.iterdir()) == sorted(one["name"] for one in by_step.values())


def kept(yard: Yard, run: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = yard.get(f"/runs/{run}/checkpoints")["items"]
    return items
