"""What the experiments share: runs of a whole Trainyard, who is killed, and what is counted afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.up_process import Up, wait_until
from tests.whole.runs import FINAL, Document, Yard, example
from trainyard.contract.base import JsonObject

STEPS = 400
TRUE_WITHIN_S = 30.0  # of a fault a status may be behind what is


@dataclass(frozen=True)
class Row:
    """One experiment. ``wrong`` counts runs whose status was not true TRUE_WITHIN_S after the fault."""

    experiment: str
    seed: int
    attempts: int
    points: int
    lost: int
    doubled: int
    wrong: int

    def cells(self) -> tuple[str, ...]:
        return tuple(f"{value:,}" if isinstance(value, int) else value for value in astuple(self))

    @property
    def is_clean(self) -> bool:
        return self.lost == self.doubled == self.wrong == 0


ROWS: pytest.StashKey[list[Row]] = pytest.StashKey()
TITLES = ("experiment", "seed", "attempts", "points", "lost", "doubled", "wrong")


class Scene:
    """Call ``submit`` and faults, then ``finish``."""

    def __init__(self, up: Up, yard: Yard, seed: int) -> None:
        self.up, self.yard, self.seed = up, yard, seed
        self.choice = random.Random(seed)
        self.runs: list[str] = []
        self.num_wrong = 0

    def submit(self, steps: int = STEPS, **changes: Any) -> str:
        """A training on both nodes that saves every 50 steps."""
        spec = example("tiny-steps", steps=steps, batch_size=2, warmup_steps=1, validate_every_steps=0)
        spec |= {"checkpoint": {"every_steps": 50, "keep": 3}, **changes}
        self.runs.append(self.yard.submit(spec))
        return self.runs[-1]

    def wait_for_a_step(self, run: str, lowest: int = 30, highest: int = 200) -> int:
        return int(self.yard.wait_for_step(run, self.choice.randrange(lowest, highest))["step"])

    def reports(self, run: str) -> list[JsonObject]:
        """The reports of the run's newest attempt, from the nodes' disks."""
        found = []
        for path in self.up.home.glob("nodes/*/attempts/*/report.json"):
            with contextlib.suppress(FileNotFoundError):
                report = json.loads(path.read_text())
                if report["run"] == run:
                    found.append(report)
        newest = max((report["fence"] for report in found), default=0)
        return [report for report in found if report["fence"] == newest]

    def kill_of_attempt(self, run: str, choose: Callable[[JsonObject], int]) -> None:
        """SIGKILL a process of the run's newest attempt."""

        def has_killed() -> bool:
            reports = [one for one in self.reports(run) if one["phase"] == "running"]
            with contextlib.suppress(ProcessLookupError):
                if reports:
                    os.kill(choose(self.choice.choice(reports)), 9)
                    return True
            return False

        wait_until(has_killed, "a process of the attempt is killed", patience_s=20)

    def check_status(self, run: str) -> None:
        """Count the run as wrong if its status is not true within TRUE_WITHIN_S from now."""
        deadline = time.monotonic() + TRUE_WITHIN_S
        while not self._is_true(run):
            if time.monotonic() > deadline:
                self.num_wrong += 1
                print(f"wrong: {self.yard.run(run)['status']} of {run}", flush=True)
                return
            time.sleep(0.5)

    def _is_true(self, run: str) -> bool:
        """Whether a run that is RUNNING has all of its ranks, and one that is over has none."""
        ranks = [rank for report in self.reports(run) for rank in report["ranks"]]
        num_alive = sum(psutil.pid_exists(rank["pid"]) for rank in ranks if rank.get("ended_at") is None)
        status = self.yard.run(run)["status"]
        if status in (*FINAL, "PAUSED"):
            return num_alive == 0
        return status != "RUNNING" or (num_alive > 0 and num_alive == len(ranks))

    def finish(self, name: str, *, statuses: tuple[str, ...] = ("SUCCEEDED",)) -> Row:
        """Wait for the end of all runs, and count."""
        num_attempts = num_points = num_lost = num_doubled = 0
        for run in self.runs:
            ended = self.yard.wait_for_end(run)
            assert ended["status"] in statuses, ended["reason"]
            self.check_status(run)
            steps = self._steps(run)
            last = ended["spec"]["train"]["steps"] if ended["status"] == "SUCCEEDED" else ended["step"] or 0
            expected = set(range(1, last + 1))
            num_points += len(expected)
            num_lost += len(expected - steps.keys())
            num_doubled += sum(count - 1 for count in steps.values())
            num_attempts += ended["attempt"] or 0
        return Row(name, self.seed, num_attempts, num_points, num_lost, num_doubled, self.num_wrong)

    def _steps(self, run: str) -> Counter[int]:
        """How often each step of the loss is stored, in what the newest attempts show."""
        series = self.yard.get(f"/runs/{run}/series/data", name="train/loss", points=10_000)["series"]
        assert all(one["kind"] == "raw" for one in series)
        return Counter(step for one in series for step in one["step"])

    def events(self, run: str) -> list[Document]:
        items: list[Document] = self.yard.get(f"/runs/{run}/events", limit=200)["items"]
        return items

    def checkpoints(self, run: str) -> list[Path]:
        """The folders of the run's checkpoints, newest first."""
        folders = (self.up.home / "checkpoints" / run).glob("step-*.fence-*")
        return sorted(folders, key=lambda path: int(path.name.split(".")[0].removeprefix("step-")), reverse=True)
