"""The thread that sends a local run to the server while it goes on; files are sent by another one, ``file_sender``.

All processes of a run write into one folder. The one that holds the folder's lock sends what all of them wrote; when
it ends, another one takes over. The lock is of the kind that forked children do not inherit.
"""

import contextlib
import fcntl
import logging
import os
import sys
import threading
import time
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Self

from trainyard.formats.words import listed
from trainyard.rest import config
from trainyard.rest.client import Client
from trainyard.rest.connection import ApiError, Unreachable
from trainyard.sdk import sync
from trainyard.sdk.streaming import Warn
from trainyard.spooling.reader import SpoolReader

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
            why = str(error).rstrip(".")
            self._warn("files", f"files of the run cannot be sent: {why}. Points are, and training goes on; {then}")


PERIOD_S = 1.0
ANNOUNCE_PERIOD_S = 10.0
LONGEST_PAUSE_S = 30.0  # between tries while the server is away
REQUEST_TIMEOUT_S = 5.0
FINISH_TIMEOUT_S = 10.0
LAST_PAUSE_S = 0.2
LAST_WORD_S = 1.0  # of the time to finish, which files leave for the announcement that the run has ended
LOCK = "stream.lock"
THREAD = "trainyard-stream"  # and how the name of the one for files begins

# httpx logs each request, which would stand between the lines of a script that shows what is logged.
logging.getLogger("httpx").addFilter(lambda record: not (record.threadName or "").startswith(THREAD))


class Sender:
    """Sends one local run every second. Made by ``start``; ``finish`` sends the rest."""

    def __init__(self, client: Client, folder: Path, local_id: str, warn: Warn) -> None:
        self._client = client
        self._folder = folder
        self._local_id = local_id
        self._warn = warn
        self._lock: int | None = None  # the open file, while this process is the one that sends
        self._lock_file: int | None = None
        self.run_id = ""
        self._readers: dict[str, SpoolReader] = {}  # by producer
        self._files = FileSender(client, folder, warn)
        self._left: list[str] = []  # files that were not sent in time
        self._announced_at = float("-inf")
        self._num_failures = 0
        self._is_hopeless = False
        self._is_all_sent = False
        self._deadline = float("inf")
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name=THREAD, daemon=True)

    @classmethod
    def start(cls, folder: Path, local_id: str, warn: Warn) -> Self:
        """Raises NotConfigured, Unreachable for what is no address, and RuntimeError where there is no thread."""
        found = config.load()
        client = Client(*found, timeout_s=REQUEST_TIMEOUT_S, renew=partial(config.renewed_token, *found))
        sender = cls(client, folder, local_id, warn)
        with contextlib.suppress(OSError):  # as on a disk that is full: then it is tried again
            folder.mkdir(parents=True, exist_ok=True)
        sender._is_ours()  # before a child can be: whoever began the run sends it
        sender._files.thread.start()
        sender._thread.start()
        return sender

    def finish(self) -> None:
        """Send the rest within ten seconds, and say where the run is to be seen, or how the rest is sent."""
        self._deadline = time.monotonic() + FINISH_TIMEOUT_S
        self._closing.set()
        if self._thread is not threading.current_thread():
            self._thread.join(FINISH_TIMEOUT_S)
        if self._is_all_sent:
            self._say(f"everything was sent; see {self.page}")
        elif self._lock is not None or self._thread.is_alive() or self._left:
            some = listed(self._left, at_most=3)
            missing = f": of its files {some} {'is' if len(self._left) == 1 else 'are'} missing" if some else ""
            self._warn("unsent", f"not everything was sent{missing}. `trainyard sync {self._folder}` sends the rest")

    # The thread.

    def _serve(self) -> None:
        while not self._closing.is_set():
            if self._is_ours():
                self._try_to_send()
                if self._is_hopeless:
                    return self._files.end()
            self._closing.wait(min(PERIOD_S * 2 ** min(self._num_failures, 10), LONGEST_PAUSE_S))
        self._send_last()
        self._files.end()

    def _send_last(self) -> None:
        """Send the rest, also what another process writes until it sees that the lock is free."""
        while self._is_ours():
            num_bytes = self._num_bytes()
            self._announced_at = float("-inf")
            if not self._try_to_send():
                return
            self._release()  # a file that is still on its way may come twice, which changes nothing
            if self._num_bytes() == num_bytes:
                self._is_all_sent = bool(self.run_id) and not self._left
                return
            if time.monotonic() + LAST_PAUSE_S > self._deadline:
                return
            time.sleep(LAST_PAUSE_S)

    def _try_to_send(self) -> bool:
        """Send what there is, and return whether that went well; warn once where it did not."""
        try:
            self._send()
        except (ApiError, Unreachable, sync.Gone, sync.Stuck, OSError) as error:
            is_refused = isinstance(error, ApiError) and error.status in HOPELESS
            self._is_hopeless = is_refused or isinstance(error, sync.Gone)
            self._fail(f"{error}")
        except Exception as error:  # a fault of ours is no reason to disturb the training
            self._is_hopeless = True
            self._fail(f"{error!r}")
        else:
            self._num_failures = 0
            return True
        return False

    def _fail(self, why: str) -> None:
        self._num_failures += 1
        self._readers.clear()
        self._announced_at = float("-inf")  # the server says anew how far it has come
        if time.monotonic() > self._deadline:  # finish has said what there is to say
            return
        is_over = self._is_hopeless or self._closing.is_set()
        then = f"{'' if is_over else 'it is tried again, else '}`trainyard sync {self._folder}` sends it"
        then += ", with --project NAME to that project" if self._is_hopeless else ""
        self._warn("stream", f"the run cannot be sent: {why.rstrip('.')}. Training goes on; {then}")

    def _send(self) -> None:
        run = self._find()
        if run is None:  # its begin record is still to be written
            return
        has_news = False
        if run.spools.keys() - self._readers.keys() or time.monotonic() - self._announced_at > ANNOUNCE_PERIOD_S:
            self._announce(run)
        for spool in run.spools.values():
            reader = self._readers[spool.producer]
            had_ended = reader.has_ended
            for _ in sync.batches(self._client, self.run_id, spool, reader, waits=()):
                if time.monotonic() > self._deadline:
                    raise Unreachable("it takes too long")
            has_news |= reader.has_ended and not had_ended
        if self._closing.is_set():
            self._files.finish(run, self.run_id, self._deadline - LAST_WORD_S)
            self._left = list(self._files.left(run))
        else:
            self._files.offer(run, self.run_id)
        if has_news or self._closing.is_set():  # what became of the run is decided when all of it is there
            self._announce(run)

    def _announce(self, run: sync.LocalRun) -> None:
        answer = sync.announce(self._client, run, waits=(), is_live=not self._closing.is_set())
        is_new = not self.run_id
        self.run_id = str(answer["run"]["id"])
        self._announced_at = time.monotonic()
        for producer, spool in run.spools.items():
            if producer not in self._readers:
                after = int(answer["watermarks"].get(producer, 0))
                self._readers[producer] = SpoolReader(spool.folder, producer, after)
        if is_new:
            self._say(f"this run is to be seen at {self.page}")

    def _find(self) -> sync.LocalRun | None:
        found = [run for run in sync.find(self._folder) if run.id == self._local_id] if self._folder.is_dir() else []
        return found[0] if found else None

    def _num_bytes(self) -> int:
        try:
            run = self._find()
            return run.num_bytes if run is not None else 0
        except OSError:
            return 0

    # One process of a run sends.

    def _is_ours(self) -> bool:
        """Take the folder's lock, and return whether this process has it."""
        if self._lock is None:
            try:
                if self._lock_file is None:
                    self._lock_file = os.open(self._folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
                fcntl.lockf(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._lock = self._lock_file
            except OSError:  # another process has it, or there is no folder yet
                return False
        return True

    def _release(self) -> None:
        if self._lock is not None:
            with contextlib.suppress(OSError):
                fcntl.lockf(self._lock, fcntl.LOCK_UN)
            self._lock = None

    @property
    def page(self) -> str | None:
        return f"{self._client.url}/runs/{self.run_id}/" if self.run_id else None

    def _say(self, sentence: str) -> None:
        with contextlib.suppress(OSError, ValueError, AttributeError):  # stderr may be closed, or None
            print(f"trainyard: {sentence}", file=sys.stderr, flush=True)
