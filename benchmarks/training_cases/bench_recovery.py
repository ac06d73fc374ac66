"""From SIGKILL of a rank to the first step that had not been trained before, by turns with torchrun's own restarts; and
from SIGSTOP of a rank to the sentence that names it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil

from benchmarks import goals, torchrun_gpt
from benchmarks.stack import Stack, percentile, running
from benchmarks.table import Row, middle, scaled, spread_of
from trainyard.contract.base import JsonObject

REPEATS = 10
HANGS = 3
HANG_LIMIT_S = 5
SAVED_EVERY = 25  # steps, of both
STEPS_BETWEEN = 2 * SAVED_EVERY  # kills: there is a checkpoint of the attempt by then
PATIENCE_S = 300.0
TORCHRUN_LIMIT_S = 60.0  # its new ranks sometimes wait for each other without end: such a restart counts as so long
TORCHRUN = "torchrun, --monitor-interval 0.05"
Found = TypeVar("Found")


def spec(**changes: Any) -> JsonObject:
    return {
        "name": "recovery",
        "resources": {"nodes": 2, "processes_per_node": 1, "accelerator": "cpu"},
        "task": {"recipe": "language-model", "model": {"layers": 4, "width": 128, "heads": 4, "context": 128}},
        "train": {"steps": 10_000_000, "batch_size": 32, "validate_every_steps": 0},
        "checkpoint": {"every_steps": SAVED_EVERY},
        "restarts": {"max": 1_000},
        **changes,
    }


class NoAnswer(SystemExit):
    """What was waited for did not come."""


def until(question: Callable[[], Found | None], what: str, patience_s: float = PATIENCE_S) -> Found:
    """Return the first answer that is not None. Raises NoAnswer when none comes."""
    deadline = time.monotonic() + patience_s
    while (answer := question()) is None:
        if time.monotonic() > deadline:
            raise NoAnswer(f"after {patience_s:g} s there is no {what}")
        time.sleep(0.05)
    return answer


@dataclass(frozen=True)
class Recovered:
    seconds: float  # from the kill to the first new step
    steps_again: int
    is_over: bool = True  # False: it had not come back when the limit had passed


class OurRun:
    """One run of ours that is killed again and again."""

    def __init__(self, stack: Stack, **changes: Any) -> None:
        self._stack = stack
        self.id = stack.submit(spec(**changes))

    def kill(self, rank: int) -> Recovered:
        """SIGKILL the rank once its attempt has gone on for a while."""
        number = int(self.document()["attempt"] or 1)
        since = self.wait_for_steps(number)
        pid = self.pid(rank)
        at = time.time()
        os.kill(pid, signal.SIGKILL)
        data = until(lambda: self._recovery(since), "new step of ours after a kill")
        times = self._times()
        return Recovered(times[int(data["step"])] - at, int(data["steps_again"]))

    def median_step_s(self) -> float:
        return middle(self._stack.column(self.id, "train/step_time_s", "value"))

    def stop(self) -> None:
        self._stack.http.post(f"/api/v1/runs/{self.id}/stop")
        until(lambda: self.document()["status"] == "CANCELLED" or None, "end of a stopped run")

    def document(self) -> JsonObject:
        found: JsonObject = self._stack.get(f"/runs/{self.id}")
        return found

    def wait_for_steps(self, number: int) -> int:
        """Wait until the attempt has done some; return how often the run has recovered by then."""
        what = f"progress of attempt {number}"
        first = until(lambda: self.document()["step"] if self.document()["attempt"] == number else None, what)
        until(lambda: True if int(self.document()["step"]) >= int(first) + STEPS_BETWEEN else None, what)
        return len(self.events("recovered"))

    def events(self, code: str) -> list[JsonObject]:
        events = self._stack.get(f"/runs/{self.id}/events", limit=200)["items"]
        return [event for event in events if event["code"] == code]

    def _recovery(self, since: int) -> JsonObject | None:
        found = self.events("recovered")
        if len(found) <= since:
            return None
        data: JsonObject = max(found, key=lambda event: event["at"])["data"]
        return data

    def pid(self, rank: int) -> int:
        attempt = self._stack.get(f"/runs/{self.id}/attempts")["items"][-1]
        ranks = [one for place in attempt["placements"] for one in place["ranks"]]
        return int(next(one["pid"] for one in ranks if one["rank"] == rank))

    def _times(self) -> dict[int, float]:
        """Return when each step ended, of the attempts that count."""
        data = self._stack.get(f"/runs/{self.id}/series/data", name="train/loss", points=10_000)["series"]
        return {step: at for one in data for step, at in zip(one["step"], one["time"], strict=True)}


class TorchrunRun:
    """The same under torchrun: one agent with two ranks, which is the least that it can have to do."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        words = ["--standalone", "--nproc-per-node", "2", "--max-restarts", "1000", "--monitor-interval", "0.05"]
        words += [torchrun_gpt.__file__, str(folder), str(SAVED_EVERY)]
        # With the store that a stand-alone agent shares, restarted ranks may read the addresses of the attempt before
        # and wait for each other for gloo's 30 minutes (torch 2.13).
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def steps(self) -> list[tuple[int, int, float]]:
        """Return restarts, step and Unix seconds of each step, in their order."""
        with contextlib.suppress(FileNotFoundError):
            lines = (self._folder / "steps").read_text().splitlines()[:-1]  # the last may be half written
            return [(int(words[0]), int(words[1]), float(words[2])) for words in map(str.split, lines)]
        return []

    def kill(self, rank: int) -> Recovered:
        first = until(lambda: len(self.steps()) or None, "step of torchrun")
        until(lambda: True if len(self.steps()) >= first + STEPS_BETWEEN else None, "progress of torchrun")
        victim = psutil.Process(self.process.pid).children()[rank]
        at = time.time()
        victim.kill()
        try:
            return self._recovered(at)
        except NoAnswer:
            return Recovered(TORCHRUN_LIMIT_S, 0, is_over=False)

    def _recovered(self, at: float) -> Recovered:
        """A step that was under way may end after the kill: the new ones are those behind it, of a later start."""
        limit_s = at + TORCHRUN_LIMIT_S - time.time()
        number = until(lambda: max(restarts for restarts, _, _ in self.steps()) or None, "restart", limit_s)
        last = max(step for restarts, step, _ in self.steps() if restarts < number)
        limit_s = at + TORCHRUN_LIMIT_S - time.time()
        new = until(
            lambda: next((ended for one, step, ended in self.steps() if one >= number and step > last), None),
            "new step of torchrun",
            limit_s,
        )
        first = min(step for restarts, step, _ in self.steps() if restarts >= number)
        return Recovered(new - at, last - first + 1)

    def close(self) -> None:
        for process in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.kill()
        self.process.wait()


@contextmanager
def torchrun() -> Iterator[TorchrunRun]:
    with tempfile.TemporaryDirectory(prefix="trainyard-bench-") as folder:
        run = TorchrunRun(Path(folder))
        try:
            yield run
        finally:
            run.close()


def named_after(stack: Stack) -> float:
    """Return the seconds from SIGSTOP of a rank until the run's history names it."""
    run = OurRun(stack, hangs={"after": f"{HANG_LIMIT_S}s"}, restarts={"max": 0})
    run.wait_for_steps(1)
    pid, at = run.pid(1), time.time()
    os.kill(pid, signal.SIGSTOP)
    until(lambda: run.events("hang-found") or None, "name of the hang")
    took_s = time.time() - at
    until(lambda: run.document()["status"] == "FAILED" or None, "end of the hung run")
    reason = run.document()["reason"]
    if (reason["evidence"]["rank"], reason["code"]) != (1, "hang"):
        raise SystemExit(f"the wrong rank is blamed: {reason['sentence']}")
    return took_s


def rows() -> list[Row]:
    ours: list[Recovered] = []
    theirs: list[Recovered] = []
    number = scaled(REPEATS, least=2)
    with running() as stack:
        hangs = [named_after(stack) for _ in range(scaled(HANGS))]
        run = OurRun(stack)
        for turn in range(number):
            if turn:
                run = OurRun(stack)
            ours.append(run.kill(turn % 2))
            step_s = run.median_step_s()
            run.stop()  # the machine is for one of the two alone
            with torchrun() as other:
                theirs.append(other.kill(turn % 2))
    seconds = [one.seconds for one in ours]
    note = f"{number} kills each, by turns; trained again: {middle(one.steps_again for one in ours):g} and "
    note += (
        f"{middle([one.steps_again for one in theirs if one.is_over] or [0]):g} steps; load {os.getloadavg()[0]:.1f}"
    )
    if never := sum(not one.is_over for one in theirs):
        note += f"; {never} of torchrun's restarts had no new step after {TORCHRUN_LIMIT_S:g} s and count as that"
    what = "SIGKILL of a rank to the next new step, hello-gpt, 2 ranks"
    peer = middle(one.seconds for one in theirs)
    p95: dict[str, float | None] = {
        "p95": percentile(seconds, 0.95),
        "p95 of torchrun": percentile([one.seconds for one in theirs], 0.95),
    }
    return [
        Row(f"{what}: median", middle(seconds), "s", peer, TORCHRUN, goal=goals.RECOVERY, spread=spread_of(seconds),
            others=p95, note=note),
        Row(f"{what}: p95", p95["p95"], "s", p95["p95 of torchrun"], TORCHRUN, goal=goals.RECOVERY_P95),
        Row(f"{what}, in its own steps", middle(seconds) / step_s, "steps", peer / step_s, TORCHRUN,
            goal=goals.RECOVERY_STEPS, note=f"of {step_s * 1000:.0f} ms"),
        Row(f"SIGSTOP of a rank to its name, limit {HANG_LIMIT_S} s: longest", max(hangs), "s", None, "",
            goal=goals.HANG_NAMED, spread=spread_of(hangs), note=f"{len(hangs)} hangs"),
    ]  # fmt: skip
