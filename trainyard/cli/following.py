"""Watching a run until it ends: its status and progress on the standard error, and its logs where asked."""

from __future__ import annotations

import time

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from trainyard.cli.logs import LogReader
from trainyard.cli.screen import Screen, figure, safe
from trainyard.contract.answers import runs as run_answers
from trainyard.contract.statuses import FINAL
from trainyard.rest.client import Client
from trainyard.rest.connection import ApiError

POLL_S = 0.5


def follow(
    client: Client, run_id: str, screen: Screen, *, with_logs: bool = False, timeout_s: float | None = None
) -> run_answers.Run:
    """Return the run when it has ended. Raises ApiError when ``timeout_s`` is over before."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    reader = LogReader(client, run_id) if with_logs else None
    bar = StatusBar(screen) if screen.err.is_terminal and not with_logs else StatusLines(screen)
    with bar:
        while True:
            run = client.run(run_id)
            bar.show(run)
            for line in reader.new_lines() if reader else ():
                screen.say(line.text)
            if run["status"] in FINAL:
                break
            if deadline is not None and time.monotonic() > deadline:
                raise ApiError(0, f"{run_id} is still {run['status']} after {timeout_s:g} s", [])
            time.sleep(POLL_S)
    for name, one in run["summary"].items():
        screen.say(f"{name} {figure(one['last'])}")
    for trouble in run["troubles"]:
        screen.say(f"remark: {trouble['sentence']}")
    return run


class StatusLines:
    """One line for each change of status and each tenth of the way."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._last: tuple[str, int] | None = None

    def __enter__(self) -> StatusLines:
        return self

    def __exit__(self, *_: object) -> None: ...

    def show(self, run: run_answers.Run) -> None:
        now = (run["status"], int(10 * (run["progress"] or 0)))
        if now == self._last:
            return
        reason = run["reason"]["sentence"] if self._last is None or self._last[0] != run["status"] else ""
        self._last = now
        step = f" step {run['step']:,} of {run['steps']:,}" if run["step"] is not None and run["steps"] else ""
        self._screen.say(f"{run['status']}{step} {reason}".rstrip())


class StatusBar(StatusLines):
    """A bar that grows, under the status."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(screen)
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=screen.err
        )
        self._task = self._progress.add_task("…", total=None)

    def __enter__(self) -> StatusBar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, run: run_answers.Run) -> None:
        self._progress.update(
            self._task, description=safe(run["status"]), total=run["steps"], completed=run["step"] or 0
        )
