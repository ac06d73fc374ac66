"""The thread that sends the files that a script saved: one may take longer than the server waits for a heartbeat.

It sends only what ``offer`` gives it, and so only while its process is the one that sends the run.
"""

import contextlib
import threading
import time
from pathlib import Path
from queue import SimpleQueue

from trainyard.rest.client import Client
from trainyard.rest.connection import ApiError
from trainyard.sdk import sync
from trainyard.sdk.streaming import Warn

PAUSE_S = 10.0  # between tries
HOPELESS = frozenset({400, 401, 403, 404, 413, 422})  # asking again would get the same answer


class FileSender:
    """Sends the files of one run, whose spools lie in ``folder``, once its ``thread`` is started."""

    def __init__(self, client: Client, folder: Path, warn: Warn) -> None:
        self._client = client
        self._folder = folder
        self._warn = warn
        self._passes: SimpleQueue[tuple[sync.LocalRun, str] | None] = SimpleQueue()
        self._is_idle = threading.Event()
        self._is_idle.set()
        self._sent: dict[str, int] = {}  # when what was sent had been changed
        self._again_at, self._deadline = float("-inf"), float("inf")
        self.thread = threading.Thread(target=self._serve, name="trainyard-stream-files", daemon=True)

    def offer(self, run: sync.LocalRun, run_id: str) -> bool:
        """Begin to send what is new, unless it is at work or waits to try again; return whether it began."""
        if not self._is_idle.is_set() or time.monotonic() < self._again_at or not self.left(run):
            return False
        self._is_idle.clear()
        self._passes.put((run, run_id))
        return True

    def finish(self, run: sync.LocalRun, run_id: str, deadline: float) -> None:
        """Send what is left and wait for it until the deadline, after which no further file is begun."""
        self._again_at, self._deadline = float("-inf"), deadline
        while (room_s := deadline - time.monotonic()) > 0 and self._is_idle.wait(room_s) and self.offer(run, run_id):
            pass

    def left(self, run: sync.LocalRun) -> dict[str, int]:
        """Return the paths of files that were not sent as they are now, and when each was changed (nanoseconds)."""
        found = {}
        for path, file in run.files.items():
            with contextlib.suppress(OSError):  # it has just gone
                if (stamp := file.stat().st_mtime_ns) != self._sent.get(path):
                    found[path] = stamp
        return found

    def end(self) -> None:
        self._passes.put(None)

    # The thread.

    def _serve(self) -> None:
        while (given := self._passes.get()) is not None:
            try:
                self._send(*given)
            except Exception as error:  # also a fault of ours is no reason to disturb the training
                self._fail(error)
            self._is_idle.set()

    def _send(self, run: sync.LocalRun, run_id: str) -> None:
        stamps = self.left(run)  # before: what changes meanwhile is sent again
        for path, _, why in sync.send_files(self._client, run, run_id):
            if why:
                self._warn("file", f"{why}. Training goes on")
            if path in stamps:
                self._sent[path] = stamps[path]
            if time.monotonic() > self._deadline:
                return

    def _fail(self, error: Exception) -> None:
        is_hopeless = isinstance(error, ApiError) and error.status in HOPELESS
        self._again_at = float("inf") if is_hopeless else time.monotonic() + PAUSE_S
        if time.monotonic() < self._deadline:  # after it finish has said what there is to say
            then = f"{'' if is_hopeless else 'it is tried again, else '}`trainyard sync {self._folder}` sends them"
            self._warn("files", f"files of the run cannot be sent: {error}. Points are, and training goes on; {then}")
