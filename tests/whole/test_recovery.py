"""A run that is hurt carries on by itself, through every process that there is."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.browser.conftest import packed
from tests.whole.conftest import Losses, two_ranks
from tests.whole.runs import Document, Yard, points, until
from tests.whole.test_restoring import kept

ALWAYS_FAILS = """
import trainyard

run = trainyard.init()
for step in range(1, 6):
    run.log({"train/loss": 1 / step}, step=step)
raise ValueError("no such layer")
"""


# To the process that is killed: the class of the cause and the start of its sentence.
CAUSES = {
    "rank 0": ("killed", "Rank 0 on {node} was killed by SIGKILL (9) in step "),
    "rank 1": ("killed", "Rank 1 on {node} was killed by SIGKILL (9) in step "),
    "supervisor": ("process-lost", "The supervisor on {node} was killed; its ranks ended with it."),
    "reaper": ("process-lost", "The process reaper on {node} was killed; its ranks ended with it."),
}
EACH = tuple(CAUSES)


def victim(yard: Yard, run: str, what: str) -> int:
    """Return the process to kill, by what it is to the run."""
    placements = yard.get(f"/runs/{run}/attempts")["items"][-1]["placements"]
    rank = placements[1 if what in ("rank 1", "reaper") else 0]["ranks"][0]["pid"]
    if what.startswith("rank"):
        return int(rank)
    supervisor = psutil.Process(rank).ppid()
    return supervisor if what == "supervisor" else psutil.Process(supervisor).ppid()


def said(yard: Yard, run: str, code: str) -> list[str]:
    events = yard.get(f"/runs/{run}/events", limit=200)["items"]
    return [event["sentence"] for event in events if event["code"] == code]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("killed", [pytest.param(EACH, id="each", marks=pytest.mark.extended), ("rank 1", "reaper")])
def test_killed_processes_cost_seconds_and_no_hand(yard: Yard, undisturbed: Losses, killed: tuple[str, ...]) -> None:
    """Of a run on two nodes one process after another is killed; its loss curve is that of an undisturbed run."""
    from_storage = {"every_steps": 20, "keep": 3, "replicate_every_steps": 0}
    run = yard.submit(two_ranks("hurt", checkpoint=from_storage))
    for number, what in enumerate(killed, start=1):
        until(lambda number=number: len(own := kept(yard, run)) >= 2 and own[0]["attempt"] == number)
        os.kill(victim(yard, run, what), signal.SIGKILL)
        until(lambda number=number: yard.run(run)["attempt"] == number + 1)
    ended = yard.wait_for_end(run)
    assert (ended["status"], ended["step"], ended["attempt"]) == ("SUCCEEDED", 400, len(killed) + 1), ended["reason"]
    events = yard.get(f"/runs/{run}/events", limit=200)["items"]
    assert "FAILED" not in [event["data"].get("to") for event in events]
    check_causes(yard, run, killed)
    until(lambda: len(said(yard, run, "recovered")) == len(killed))
    restarts = yard.run(run)["restarts"]
    assert (
        restarts.pop("source") == "storage" and restarts.pop("from_step") % 20 == 0 and restarts.pop("steps_lost") >= 0
    )
    assert restarts == {"max": 3, "used": 1, "total": len(killed), "due_at": None, "left_out": []}
    assert points(yard, run, "train/loss") == undisturbed["train/loss"]


def check_causes(yard: Yard, run: str, killed: tuple[str, ...]) -> None:
    """Each attempt's cause is what was killed on its node, and the other node is not blamed for what it felt."""
    restarts = said(yard, run, "restarting")
    ended = sorted(yard.get(f"/runs/{run}/attempts")["items"], key=number_of)[:-1]
    for sentence, attempt, what in zip(restarts, ended, killed, strict=True):
        kind, start = CAUSES[what]
        cause = attempt["cause"]
        assert cause["class"] == kind and cause["sentence"].startswith(start.format(node=cause["node"])), cause
        assert sentence.startswith(cause["sentence"])
        assert "Restart 1 of 3 follows at once, from step " in sentence
        (other,) = {one["node"] for one in attempt["placements"]} - {cause["node"]}
        assert {one["node"] for one in cause["consequences"]} == {other}
        assert "GLHF" not in str([sentence, cause])


def number_of(attempt: Document) -> int:
    return int(attempt["number"])


def script(yard: Yard, folder: Path, text: str, **spec: Any) -> str:
    (folder / "train.py").write_text(text)
    stored = yard.http.post("/bundles", content=packed(folder))
    assert stored.status_code == 201, stored.text
    task = {"script": "train.py", "code": {"sha256": stored.json()["sha256"]}}
    return yard.submit({"name": "script", "resources": {"nodes": 1}, "task": task, **spec})


def test_the_same_exception_in_the_same_step_twice_ends_the_run(yard: Yard, tmp_path: Path) -> None:
    run = script(yard, tmp_path, ALWAYS_FAILS, restarts={"on": {"user-error": "restart"}})
    ended = yard.wait_for_end(run)
    assert (ended["status"], ended["attempt"]) == ("FAILED", 2)
    assert "ValueError: no such layer" in ended["reason"]["sentence"]
    assert "It failed in the same way in step 5 before" in ended["reason"]["sentence"]


def test_an_exception_of_the_users_code_ends_the_run_at_once(yard: Yard, tmp_path: Path) -> None:
    ended = yard.wait_for_end(script(yard, tmp_path, ALWAYS_FAILS))
    assert (ended["status"], ended["attempt"]) == ("FAILED", 1)
