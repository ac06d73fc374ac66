"""Children: started, started again when they die, and stopped in the end, with the processes that they leave behind."""

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from dashboard.up.output import Console, LineCutter, LogFile
from dashboard.up.parent_death import tethered
from trainyard import lifeline

ROOT = Path(__file__).resolve().parents[2]
LOOK_EVERY_MS = 200
LAST_WORDS_S = 2.0  # as long is a grandchild listened to that goes on writing into the pipe
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
END_S = 1.0  # that the rest may take to die
STEADY_S = 10.0  # a child that lived as long starts again after the first pause


@dataclass(frozen=True)
class Program:
    """A program to run. A child whose ``death_signal`` is 0 tidies up by itself when its lifeline ends.

    ``environment`` goes over our own; None takes a variable away.
    """

    name: str
    command: list[str]
    environment: dict[str, str | None] = field(default_factory=dict)
    descriptors: tuple[int, ...] = ()
    death_signal: int = signal.SIGKILL
    stops_by_lifeline: bool = False
    final_code: int | None = None  # after which it is not started again
    prepare: Callable[[], str] | None = None  # before each start; returns what there is to note


class Child:
    """Keeps one program running, under one lifeline for all its lives: what it started may outlive each of them."""

    def __init__(self, program: Program, folder: Path, console: Console, changed: Callable[[], None]) -> None:
        self.program, self.console, self.changed = program, console, changed
        self.num_starts = 0
        self.num_early_ends = 0  # in a row, each before STEADY_S
        self.last_line = ""
        self._life: StartedProcess | None = None
        self._lifeline = os.pipe()
        self._log = LogFile(folder / f"{program.name}.log")
        self._is_stopping = False
        self._keeping: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The process while it lives."""
        return None if self._life is None or self._life.ended.done() else self._life.pid

    @property
    def started_at(self) -> float:
        return 0.0 if self._life is None else self._life.started_at

    async def start(self) -> None:
        """Start the program; from then on it is kept running."""
        await self._prepare()
        self._life = self._begin()
        self._keeping = asyncio.create_task(self._keep(self._life), name=f"keep {self.program.name}")

    async def stop(self, timeout_s: float) -> bool:
        """Ask the program to end, and kill it after ``timeout_s``. Returns whether it ended by itself."""
        self._is_stopping = True
        ended = True
        if self._life is not None and self._keeping is not None and self.pid is not None:
            if self.program.stops_by_lifeline:
                self._cut_lifeline()
            else:
                self._life.signal(signal.SIGTERM)
            ended = await _has_ended(self._keeping, timeout_s)
            if not ended:
                self.note(f"did not stop within {timeout_s:g} s: killed")
                self._life.signal(signal.SIGKILL)
                await _has_ended(self._keeping, 0.5)
        await self._end()
        return ended

    def kill(self) -> None:
        self._is_stopping = True
        if self._life is not None:
            self._life.signal(signal.SIGKILL)
        self._cut_lifeline()

    def note(self, text: str) -> None:
        """Write a line about the child to the terminal, and into its file, which has all that it says itself."""
        self._log.write(f"-- {text}\n".encode())
        self.console.line(self.program.name, f"-- {text}")

    async def _keep(self, life: "StartedProcess") -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            code = await life.ended
            self.changed()
            if self._is_stopping:
                return
            if code == self.program.final_code:
                self.note(f"ended, and is not started again: {self.last_line}")
                return
            if time.time() - life.started_at > STEADY_S:
                pause_s = FIRST_PAUSE_S
                self.num_early_ends = 0
            self.num_early_ends += 1
            self.note(f"ended with {how(code)}; it starts again in {pause_s:.1f} s")
            await asyncio.sleep(pause_s)
            await self._prepare()
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
            if self._is_stopping:
                return
            life = self._life = self._begin()

    async def _prepare(self) -> None:
        if self.program.prepare is not None and (done := await asyncio.to_thread(self.program.prepare)):
            self.note(done)

    def _begin(self) -> "StartedProcess":
        program = self.program
        changes = {**program.environment, lifeline.VARIABLE: str(self._lifeline[0])}
        environment = {name: value for name, value in {**os.environ, **changes}.items() if value is not None}
        command = tethered(program.command, program.death_signal) if program.death_signal else program.command
        life = StartedProcess(command, environment, (self._lifeline[0], *program.descriptors), self._pass_on)
        self.num_starts += 1
        self._life = life
        self.changed()
        return life

    def _pass_on(self, line: bytes) -> None:
        """Called from the life's own thread."""
        self._log.write(line + b"\n")
        self.last_line = line.decode("utf-8", "replace").strip() or self.last_line

    async def _end(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeping
        self._cut_lifeline()
        self._log.close()
        self.changed()

    def _cut_lifeline(self) -> None:
        for descriptor in self._lifeline:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._lifeline = (-1, -1)


async def _has_ended(task: asyncio.Task[None], timeout_s: float) -> bool:
    done, _ = await asyncio.wait({task}, timeout=timeout_s)
    return bool(done)


# One life of a child: a process, a thread that reads its output, and a future for how it ended.


class StartedProcess:
    """A started process. Make it in the main thread: the parent-death signal follows the thread that forks."""

    def __init__(
        self, command: list[str], environment: dict[str, str], pass_fds: tuple[int, ...], say: Callable[[bytes], None]
    ) -> None:
        self._say = say
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[int] = self._loop.create_future()
        self.started_at = time.time()
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment,
            cwd=ROOT, pass_fds=pass_fds,
            start_new_session=True,  # Ctrl-C is for us alone: we stop the children gracefully
        )  # fmt: skip
        self.pid = self._process.pid
        threading.Thread(target=self._attend, name=f"attend {self.pid}", daemon=True).start()

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def _attend(self) -> None:
        lines = LineCutter()
        assert self._process.stdout is not None
        try:
            with self._process.stdout as pipe:
                self._listen(pipe.fileno(), lines)
            for line in lines.end():
                self._say(line)
        finally:  # whatever went wrong with a line: without word of its end the child would never be started again
            code = self._process.wait()
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody asks any more
                self._loop.call_soon_threadsafe(self._tell, code)

    def _listen(self, pipe: int, lines: LineCutter) -> None:
        """Read until the end of the pipe, or until the process is gone and only its own children hold it open."""
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        gone_at: float | None = None
        while gone_at is None or time.monotonic() < gone_at + LAST_WORDS_S:
            is_quiet = not poll.poll(LOOK_EVERY_MS)
            if gone_at is None and self._process.poll() is not None:
                gone_at = time.monotonic()
                continue  # its last output is in the pipe by now
            if is_quiet and gone_at is not None:
                return
            if not is_quiet:
                data = os.read(pipe, 64 * 1024)
                if not data:
                    return
                for line in lines.feed(data):
                    self._say(line)

    def _tell(self, code: int) -> None:
        if not self.ended.done():
            self.ended.set_result(code)


def how(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


PR_SET_CHILD_SUBREAPER = 36


def adopt() -> None:
    """Adopt what descendants leave behind: from now on it becomes our child, not the machine's first process's."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> list[int]:
    """Return the processes whose parent we are, dead ones that nobody has reaped among them."""
    found: list[int] = []
    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread ended meanwhile
            found += [int(word) for word in path.read_text().split()]
    return found


def reap(pids: Collection[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def end_all() -> None:
    deadline = time.monotonic() + END_S
    while (left := children()) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        reap(left)
        time.sleep(0.02)
