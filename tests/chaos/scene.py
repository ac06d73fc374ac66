"""What the experiments share: runs of a whole Trainyard, who is killed, and what is counted afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import astuple, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.up_process import Up, wait_until
from tests.whole.runs import FINAL, Document, Yard, example
from trainyard.contract.base import JsonObject

NUM_SEEDS = int(os.environ.get("CHAOS_SEEDS", "1"))
STEPS = 400
TRUE_WITHIN_S = 30.0  # of a fault a status may be behind what is


@dataclass(frozen=True)
class Row:
    """One experiment. ``wrong`` counts runs whose status was not true TRUE_WITHIN_S after the fault, ``misblamed``
    those whose cause is another than what was done."""

    experiment: str
    seed: int
    attempts: int
    points: int
    lost: int
    doubled: int
    wrong: int
    misblamed: int = 0

    def cells(self) -> tuple[str, ...]:
        return tuple(f"{value:,}" if isinstance(value, int) else value for value in astuple(self))

    @property
    def is_clean(self) -> bool:
        return self.lost == self.doubled == self.wrong == self.misblamed == 0


@dataclass(frozen=True)
class Figure:
    """One measurement of a kind; the table has their median and p95."""

    what: str
    seconds: float
    goal_s: float | None = None


ROWS: pytest.StashKey[list[Row]] = pytest.StashKey()
FIGURES: pytest.StashKey[list[Figure]] = pytest.StashKey()
TITLES = ("experiment", "seed", "attempts", "points", "lost", "doubled", "wrong", "misblamed")


class Scene:
    """Call ``submit`` and faults, then ``finish``."""

    def __init__(self, up: Up, yard: Yard, seed: int) -> None:
        self.up, self.yard, self.seed = up, yard, seed
        self.choice = random.Random(seed)
        self.runs: list[str] = []
        self._with_killed_rank: set[str] = set()
        self.num_wrong = 0
        self.num_misblamed = 0

    def submit(self, steps: int = STEPS, *, batch_size: int = 2, **changes: Any) -> str:
        """A training on both nodes that saves every 50 steps."""
        spec = example("tiny-steps", steps=steps, batch_size=batch_size, warmup_steps=1, validate_every_steps=0)
        spec |= {"checkpoint": {"every_steps": 50, "keep": 3}, **changes}
        return self.take(self.yard.submit(spec))

    def take(self, run: str) -> str:
        """Count this run, too, at the end."""
        self.runs.append(run)
        return run

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

    def any_rank(self, report: JsonObject) -> int:
        return int(self.choice.choice(report["ranks"])["pid"])

    def kill_of_attempt(
        self, run: str, choose: Callable[[JsonObject], int], number: int = signal.SIGKILL
    ) -> int | None:
        """Send the signal to a process of the run's newest attempt; return which rank it was, if any."""
        hit: list[int | None] = []

        def has_killed() -> bool:
            reports = [one for one in self.reports(run) if one["phase"] == "running"]
            with contextlib.suppress(ProcessLookupError):
                if reports:
                    report = self.choice.choice(reports)
                    pid = choose(report)
                    os.kill(pid, number)
                    hit.append(next((int(rank["rank"]) for rank in report["ranks"] if rank["pid"] == pid), None))
                    return True
            return False

        wait_until(has_killed, "a process of the attempt gets the signal", patience_s=20)
        if number == signal.SIGKILL and hit[0] is not None:
            self._with_killed_rank.add(run)
        return hit[0]

    def check_blame(self, run: str, cause_class: str, *, rank: int | None = None) -> None:
        """Count the run as misblamed unless its first failed attempt has this cause, and names this rank, if any."""

        def causes() -> list[Document]:
            attempts = self.yard.get(f"/runs/{run}/attempts")["items"]
            return [attempt["cause"] for attempt in attempts if attempt["cause"] is not None]

        wait_until(causes, "an attempt has failed", patience_s=TRUE_WITHIN_S)
        cause = causes()[0]
        if cause["class"] != cause_class or (rank is not None and cause["rank"] != rank):
            self.num_misblamed += 1
            print(f"misblamed: {cause['class']} of rank {cause['rank']}: {cause['sentence']}", flush=True)

    def wait_for_attempt(self, run: str, number: int) -> None:
        try:
            wait_until(lambda: self.yard.run(run)["attempt"] == number, f"attempt {number} begins", patience_s=60)
        except AssertionError:
            self.print_history(run)
            raise

    def print_history(self, run: str) -> None:
        """Print what the run says of itself, for a person who looks for why it did not do what it should."""
        document = self.yard.run(run)
        print(f"  {document['status']} at step {document['step']}: {document['reason']}")
        for event in sorted(self.events(run), key=lambda event: str(event["at"])):
            print(f"  {event['at']} {event['code']} {event['sentence']}")
        for attempt in self.yard.get(f"/runs/{run}/attempts")["items"]:
            print(f"  {attempt}", flush=True)

    @staticmethod
    def wait_until_true(condition: Callable[[], object], what: str = "what was waited for") -> None:
        wait_until(condition, what, patience_s=TRUE_WITHIN_S)

    def check_is_true(self, run: str) -> None:
        """Count the run as wrong if its status is not true now, and a second later."""
        if not self._is_true(run):
            time.sleep(1)
            self.num_wrong += not self._is_true(run)

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
            last = ended["step"] or 0
            if ended["status"] == "SUCCEEDED" and "train" in ended["spec"]:
                last = ended["spec"]["train"]["steps"]
            elif run in self._with_killed_rank:  # its last 50 ms of calls never reached the spool
                last = max(steps, default=0)
            expected = set(range(1, last + 1))
            num_points += len(expected)
            num_lost += len(expected - steps.keys())
            num_doubled += sum(count - 1 for count in steps.values())
            num_attempts += ended["attempt"] or 0
        wrong, misblamed = self.num_wrong, self.num_misblamed
        return Row(name, self.seed, num_attempts, num_points, num_lost, num_doubled, wrong, misblamed)

    def wait_until(self, run: str, code: str) -> None:
        """Wait until the run's history has an event of this code."""
        wait_until(lambda: code in [event["code"] for event in self.events(run)], f"event {code}", patience_s=60)

    @staticmethod
    def seconds_of(at: str) -> float:
        return datetime.fromisoformat(at).timestamp()

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
