"""Points on their way through the stream: a process that fills it, and who empties it, timed from the first to the
last."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from benchmarks.load.fill import Plan
from benchmarks.load.generate import Sender
from benchmarks.metrics_stack import ROOT, MetricsStack, ProcessUsage, wait_for_line

LOOK_S = 0.02
WATCH_S = 0.2
PATIENCE_S = 120.0


class Filling:
    """A process that has made its entries and waits for the word."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.num_entries = int(wait_for_line(process, "ready").split()[1])

    def begin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def wait_until_sent(self) -> None:
        wait_for_line(self.process, "done")


@contextmanager
def filling(plan: Plan) -> Iterator[Filling]:
    with tempfile.TemporaryDirectory(prefix="trainyard-bench-") as folder:
        path = Path(folder) / "plan.json"
        plan.write(path)
        with program("fill", str(path)) as process:
            yield Filling(process)


@contextmanager
def program(name: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run ``python -m benchmarks.load.NAME``; it is ended where it does not end by itself."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"benchmarks.load.{name}", *words],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()


def senders(stack: MetricsStack, num_runs: int) -> list[Sender]:
    """Return so many new runs, as those who send for them."""
    found = []
    for number in range(num_runs):
        run = stack.make_run(f"bench-{number}")
        attempt = stack.make_attempt(run)
        found.append(Sender(stack.node.pk, stack.node.key, run.pk, attempt.pk, attempt.fence))
    return found


def through_ingest(stack: MetricsStack, plan: Plan, process: psutil.Process) -> tuple[float, ProcessUsage]:
    """Send the plan and return the seconds until all of it is committed, and what that took of the ingest process."""
    run_ids = [sender.run for sender in plan.senders]
    with filling(plan) as filler:
        watch = ProcessUsage(process)
        started = time.monotonic()
        filler.begin()
        wait_until(lambda: stack.num_points(run_ids) >= plan.num_points, watch)
        return time.monotonic() - started, watch


def wait_until(is_done: Callable[[], bool], watch: ProcessUsage) -> None:
    """Look every 20 ms, and at the memory five times a second. Raises SystemExit after two minutes."""
    deadline = time.monotonic() + PATIENCE_S
    watched_at = 0.0
    while not is_done():
        if (now := time.monotonic()) > deadline:
            raise SystemExit(f"not all points were committed after {PATIENCE_S:g} s")
        if now - watched_at >= WATCH_S:
            watch.look()
            watched_at = now
        time.sleep(LOOK_S)
    watch.look()


def through_prototype(stack: MetricsStack, plan: Plan, task: str) -> float:
    """Send the plan to the prototype and return the seconds until it has taken all of it."""
    with tempfile.TemporaryDirectory(prefix="prototype-", dir=stack.home) as folder, filling(plan) as filler:
        path = str(Path(folder) / "prototype.sqlite3")
        with program("prototype", task, plan.socket, path, str(filler.num_entries)) as process:
            wait_for_line(process, "ready")
            started = time.monotonic()
            filler.begin()
            wait_for_line(process, "done")
            return time.monotonic() - started
