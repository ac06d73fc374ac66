"""One life of a child: a process, a thread that reads its output, and a future for how it ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from dashboard.up.output import Lines

ROOT = Path(__file__).resolve().parents[2]
LOOK_EVERY_MS = 200
LAST_WORDS_S = 2.0  # as long is a grandchild listened to that goes on writing into the pipe


class Process:
    """A started process. Make it in the main thread: the parent-death signal follows the thread that forks."""

    def __init__(
        self,
        command: list[str],
        environment: dict[str, str],
        descriptors: tuple[int, ...],
        say: Callable[[bytes], None],
    ) -> None:
        self._say = say
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[int] = self._loop.create_future()
        self.started_at = time.time()
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment,
            cwd=ROOT, pass_fds=descriptors,
            start_new_session=True,  # Ctrl-C is for us alone: we stop the children, in order
        )  # fmt: skip
        self.pid = self._process.pid
        threading.Thread(target=self._attend, name=f"attend {self.pid}", daemon=True).start()

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def _attend(self) -> None:
        lines = Lines()
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

    def _listen(self, pipe: int, lines: Lines) -> None:
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
