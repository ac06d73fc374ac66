"""One child: started, listened to, started again when it dies, and stopped in the end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from dashboard.up.output import Console, Lines, LogFile
from dashboard.up.tether import tethered
from trainyard import lifeline

ROOT = Path(__file__).resolve().parents[2]
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
LAST_WORDS_S = 2.0  # as long a grandchild that goes on writing is listened to
STEADY_S = 10.0  # a child that lived as long starts again after the first pause


@dataclass(frozen=True)
class Program:
    """What to run. A child whose ``death_signal`` is 0 tidies up by itself when its lifeline ends.

    ``environment`` goes over our own; None takes a variable away.
    """

    name: str
    command: list[str]
    environment: dict[str, str | None] = field(default_factory=dict)
    descriptors: tuple[int, ...] = ()
    death_signal: int = signal.SIGKILL
    stops_by_lifeline: bool = False
    is_quiet: bool = False  # what it says goes to its file only


class Child:
    """Keeps one program running, under one lifeline for all its lives: what it started may outlive each of them."""

    def __init__(self, program: Program, folder: Path, console: Console, changed: Callable[[], None]) -> None:
        self.program = program
        self.folder = folder
        self.console = console
        self.changed = changed
        self.pid: int | None = None
        self.started_at: float | None = None
        self.num_starts = 0
        self._lifeline = os.pipe()
        self._log = LogFile(folder / f"{program.name}.log")
        self._is_stopping = False
        self._process: asyncio.subprocess.Process | None = None
        self._keeping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the program; from then on it is kept running. Call it from the main thread: death signals follow it."""
        await self._spawn()
        self._keeping = asyncio.create_task(self._keep(), name=f"keep {self.program.name}")

    async def stop(self, timeout_s: float) -> bool:
        """Ask the program to end, and kill it after ``timeout_s``. Returns whether it ended by itself."""
        self._is_stopping = True
        process = self._process
        if process is None or process.returncode is not None:
            await self._end()
            return True
        if self.program.stops_by_lifeline:
            self._cut_lifeline()
        else:
            _signal(process, signal.SIGTERM)
        ended = await self._wait(timeout_s)
        if not ended:
            self.note(f"did not stop within {timeout_s:.0f} s: killed")
            _signal(process, signal.SIGKILL)
            await self._wait(2.0)
        await self._end()
        return ended

    def kill(self) -> None:
        self._is_stopping = True
        if self._process is not None and self._process.returncode is None:
            _signal(self._process, signal.SIGKILL)
        self._cut_lifeline()

    def note(self, text: str) -> None:
        """Say something about the child, where what it says itself is found."""
        self._log.write(f"-- {text}\n".encode())
        self.console.line(self.program.name, f"-- {text}")

    async def _keep(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._is_stopping:
            await self._listen()
            assert self._process is not None
            code = await self._process.wait()
            self.pid = None
            self.changed()
            if self._is_stopping:
                return
            assert self.started_at is not None
            if time.time() - self.started_at > STEADY_S:
                pause_s = FIRST_PAUSE_S
            self.note(f"ended with {_how(code)}; it starts again in {pause_s:.1f} s")
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
            if not self._is_stopping:
                await self._spawn()

    async def _spawn(self) -> None:
        program = self.program
        changes = {**program.environment, lifeline.VARIABLE: str(self._lifeline[0])}
        environment = {name: value for name, value in {**os.environ, **changes}.items() if value is not None}
        command = tethered(program.command, program.death_signal) if program.death_signal else program.command
        self._process = await asyncio.create_subprocess_exec(
            *command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment,
            cwd=ROOT, pass_fds=(self._lifeline[0], *program.descriptors),
            start_new_session=True,  # Ctrl-C is for us alone: we stop the children, in order
        )  # fmt: skip
        self.pid, self.started_at = self._process.pid, time.time()
        self.num_starts += 1
        self.changed()

    async def _listen(self) -> None:
        """Pass on what the program says until it has ended and said it all; its own children may hold the pipe on."""
        assert self._process is not None
        assert self._process.stdout is not None
        stream, lines = self._process.stdout, Lines()
        ended = asyncio.create_task(self._process.wait())
        last_look_at = float("inf")
        try:
            while time.monotonic() < last_look_at + LAST_WORDS_S:
                reading = asyncio.create_task(stream.read(64 * 1024))
                await asyncio.wait({reading, ended}, return_when=asyncio.FIRST_COMPLETED)
                if ended.done():  # what it said is in the pipe by now
                    last_look_at = min(last_look_at, time.monotonic())
                    await asyncio.wait({reading}, timeout=0.2)
                if not reading.done() or not reading.result():
                    reading.cancel()
                    break
                self._pass_on(lines.feed(reading.result()))
        finally:
            self._pass_on(lines.end())
            ended.cancel()

    def _pass_on(self, lines: list[bytes]) -> None:
        for line in lines:
            self._log.write(line + b"\n")
            if not self.program.is_quiet:
                self.console.line(self.program.name, line.decode("utf-8", "replace").rstrip("\r"))

    async def _wait(self, timeout_s: float) -> bool:
        assert self._keeping is not None
        done, _ = await asyncio.wait({self._keeping}, timeout=timeout_s)
        return bool(done)

    async def _end(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeping
        self._cut_lifeline()
        self.pid = None
        self.changed()

    def _cut_lifeline(self) -> None:
        for descriptor in self._lifeline:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._lifeline = (-1, -1)


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)


def _how(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name
