"""Keeps the node's warm process alive and requests supervisors from it."""

import os
import select
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import structlog

from trainyard.contract.base import BadDocument, decode, encode
from trainyard.formats.addresses import HOSTS
from workers.attempt.documents import Forked, Ready, StartRequest
from workers.data_access import ROOTS
from workers.machine.gpus import VISIBLE
from workers.machine.inventory import CORES
from workers.machine.passed_variables import passed_variables
from workers.machine.processes import STOPPED_AFTER_S, is_stopped

log = structlog.get_logger(__name__)

START_LIMIT_S = 120.0
FORK_LIMIT_S = 30.0
LONGEST_PAUSE_S = 5.0
FAILED_STARTS = 3  # in a row, after which nobody waits for another
LOOK_EVERY_S = 0.1

# Variables of a warm process beside those that pass to ranks too. /proc/PID/environ of every rank shows them: none is
# secret.
ZYGOTE_VARIABLES = (
    *("PATH", "HOME", "TMPDIR", "XDG_RUNTIME_DIR", CORES, VISIBLE, ROOTS, HOSTS),
    *("TRAINYARD_CACHE_LIMIT_BYTES", "TRAINYARD_SPOOL_FILE_BYTES", "TRAINYARD_SPOOL_LIMIT_BYTES"),
)
ONE_THREAD = {
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # of pyarrow, which pandas and so scikit-learn import
}  # fmt: skip


class ZygoteUnavailable(RuntimeError):
    """The warm process died, or did not answer; another is on its way."""


class ZygoteKeeper:
    """Starts the warm process, starts another when it dies, and forwards requests to it one at a time."""

    def __init__(self, lifeline: int) -> None:
        self._lifeline = lifeline
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._one_at_a_time = threading.Lock()
        self._is_ready = threading.Event()
        self._over = threading.Event()
        self._trouble = ""  # why none comes up

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def is_ready(self) -> bool:
        return self._is_ready.is_set()

    def keep(self) -> None:
        """Run until ``stop``; the body of a thread."""
        pause_s, failed_starts = 0.2, 0
        while not self._over.is_set():
            failed_starts += 1
            try:
                process = self._start()
                if self._is_ready.is_set():
                    pause_s, failed_starts, self._trouble = 0.2, 0, ""
                self._wait_for_end(process)
                why = f"status {process.returncode}"
            except OSError as error:  # the machine has no process or descriptor to spare: it may have one later
                why = str(error)
            if not self._over.is_set():
                self._is_ready.clear()
                log.warning("zygote.died", why=why, pause_s=pause_s)
                if failed_starts >= FAILED_STARTS:
                    self._trouble = f"its warm process ended {failed_starts} times before it was ready ({why})"
                self._over.wait(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _wait_for_end(self, process: subprocess.Popen[bytes]) -> None:
        """Return once it has ended. One that a signal has stopped is killed: new attempts would wait for it, and none
        that has begun needs it."""
        stopped_at: float | None = None
        while process.poll() is None:
            if not is_stopped(process.pid):
                stopped_at = None
            elif time.monotonic() - (stopped_at := stopped_at or time.monotonic()) >= STOPPED_AFTER_S:
                process.kill()
            time.sleep(LOOK_EVERY_S)

    def stop(self) -> None:
        """Close the channel: at its end-of-file the warm process exits."""
        self._over.set()
        self._is_ready.set()  # waiting callers learn at once that there is none
        if self._channel is not None:
            self._channel.close()

    def start_supervisor(self, request: StartRequest) -> None:
        """Return once a supervisor has locked the folder. Raises ZygoteUnavailable; then nobody lives there."""
        deadline = time.monotonic() + START_LIMIT_S
        while not self._is_ready.wait(LOOK_EVERY_S) and not self._trouble and time.monotonic() < deadline:
            pass
        if self._over.is_set() or not self._is_ready.is_set():
            raise ZygoteUnavailable(self._trouble or "the warm process does not come up")
        notified, notify = os.pipe()
        try:
            with self._one_at_a_time:
                self._send(request, notify)
            os.close(notify)
            notify = -1
            readable, _, _ = select.select([notified], [], [], FORK_LIMIT_S)
            answer = os.read(notified, 4096).decode() if readable else "no answer"
        except OSError as error:
            raise ZygoteUnavailable(str(error)) from error
        finally:
            os.close(notified)
            if notify >= 0:
                os.close(notify)
        if answer.strip() != "locked":
            raise ZygoteUnavailable(f"the supervisor did not start: {answer.strip() or 'it died'}")

    def _send(self, request: StartRequest, descriptor: int) -> None:
        channel = self._channel
        if channel is None:
            raise ZygoteUnavailable("there is no warm process")
        socket.send_fds(channel, [encode(request).encode() + b"\n"], [descriptor])
        channel.settimeout(FORK_LIMIT_S)
        try:
            answer = channel.recv(4096)
        except TimeoutError:
            if self._process is not None:
                self._process.kill()  # it hangs: another takes its place
            raise
        if not answer:
            raise ZygoteUnavailable("the warm process died")
        if problem := decode(answer, Forked).error:
            raise ZygoteUnavailable(f"the warm process refused the request: {problem}")

    def _start(self) -> subprocess.Popen[bytes]:
        ours, theirs = socket.socketpair()
        descriptors = [theirs.fileno(), *([self._lifeline] if self._lifeline >= 0 else [])]
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "workers.forking.zygote", str(theirs.fileno()), str(self._lifeline)],
                stdin=subprocess.DEVNULL,
                pass_fds=descriptors,
                cwd=Path(__file__).resolve().parents[2],
                env=child_variables(),
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        if self._channel is not None:
            self._channel.close()
        self._process, self._channel = process, ours
        ours.settimeout(START_LIMIT_S)
        try:
            ready = decode(ours.recv(4096), Ready)
        except (OSError, BadDocument) as error:
            log.warning("zygote.not_ready", error=str(error))
            process.kill()
        else:
            log.debug("zygote.ready", pid=process.pid, threads=ready.threads)
            self._is_ready.set()
        return process


def child_variables() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ZYGOTE_VARIABLES if name in os.environ}
    return {**passed_variables(os.environ), **kept, **ONE_THREAD}
