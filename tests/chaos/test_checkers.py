"""The checkers of the experiments go red: each is shown what it must see."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.chaos import scene as scenes
from tests.chaos.scene import Scene

NOBODY = 2**22 + 1  # above every process id of Linux


class Told:
    """A Trainyard that answers what the test says."""

    def __init__(self, status: str = "SUCCEEDED", steps: list[int] | None = None, cause: Any = None) -> None:
        self.status, self.cause = status, cause
        self._steps = [1, 2, 3] if steps is None else steps

    def run(self, _: str) -> dict[str, Any]:
        return {"status": self.status, "reason": {}, "step": 3, "attempt": 1, "spec": {"train": {"steps": 3}}}

    wait_for_end = run

    def get(self, path: str, **_: Any) -> Any:
        if path.endswith("/attempts"):
            return {"items": [{"cause": self.cause}]}
        return {"series": [{"kind": "raw", "step": self._steps}]}


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(scenes, "TRUE_WITHIN_S", 0.0)
    made = Scene(SimpleNamespace(home=tmp_path), Told(), 0)  # type: ignore[arg-type]
    made.take("a")
    return made


def have_rank(scene: Scene, pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    report = {"phase": "running", "fence": 1, "ranks": [{"rank": 0, "pid": pid}]}
    monkeypatch.setattr(scene, "reports", lambda _: [report])


def test_a_whole_run_is_clean(scene: Scene) -> None:
    assert scene.finish("nothing").is_clean


@pytest.mark.parametrize(("steps", "lost", "doubled"), [([1, 3], 1, 0), ([1, 2, 2, 3], 0, 1), ([], 3, 0)])
def test_points_that_are_lost_or_doubled_are_counted(scene: Scene, steps: list[int], lost: int, doubled: int) -> None:
    scene.yard = Told(steps=steps)  # type: ignore[assignment]
    row = scene.finish("sabotage")
    assert (row.lost, row.doubled, row.is_clean) == (lost, doubled, False)


@pytest.mark.parametrize(("status", "is_alive"), [("RUNNING", False), ("SUCCEEDED", True), ("PAUSED", True)])
def test_a_status_that_is_not_true_is_counted(
    scene: Scene, status: str, is_alive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.yard = Told(status)  # type: ignore[assignment]
    have_rank(scene, os.getpid() if is_alive else NOBODY, monkeypatch)
    scene.check_status("a")
    assert scene.num_wrong == 1
    scene.check_is_true("a")
    assert scene.num_wrong == 2


def test_a_wrong_cause_and_a_wrong_rank_are_counted(scene: Scene) -> None:
    scene.yard = Told(cause={"class": "killed", "rank": 1, "sentence": "…"})  # type: ignore[assignment]
    scene.check_blame("a", "killed", rank=1)
    assert scene.num_misblamed == 0
    scene.check_blame("a", "hang", rank=1)
    scene.check_blame("a", "killed", rank=0)
    assert scene.num_misblamed == 2
