"""The programs that speak to Ray, one for each cluster: a call is a line there and a line back, within a time limit.

Ray's library starts threads, prints, waits for heads that are gone, and ends its process when it loses one. So control
never imports it: what hangs is a child, which is ended and started again.
"""

import os
import select
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from runs.engines.machine_system import user_variables
from runs.engines.ray.trainyard_ray.documents import Call, RayAnswer
from runs.engines.refusals import SystemAway
from trainyard.contract.base import BadDocument, decode, encode

FOLDER = Path(__file__).parent
START_S = 8.0  # a round waits so long for a program that is starting…
START_LIMIT_S = 60.0  # …which is ended after that
ANSWER_S = 2.0  # beyond the limit that the call itself has
MAX_ANSWER = 32 << 20


class RayAddress(NamedTuple):
    address: str
    python: str
    token: str


class RayProgram:
    """A child process. Its calls come one after the other."""

    def __init__(self, place: RayAddress) -> None:
        self.version = ""  # of Ray
        self._place = place
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._is_ready = False
        self._read = b""

    def call(self, call: Call, *, patience_s: float = START_S) -> RayAnswer:
        """``patience_s``: how long to wait for a program that is starting. Raises SystemAway."""
        with self._lock:
            self._make_ready(patience_s)
            answer = self._exchange(call)
        if answer.kind == "away":
            raise self._away(answer.problem)
        return answer

    def end(self) -> None:
        process, self._process, self._is_ready, self._read = self._process, None, False, b""
        if process is not None:
            process.kill()
            process.communicate()

    def _make_ready(self, patience_s: float) -> None:
        if self._process is not None and self._process.poll() is not None:
            self.end()  # it lost Ray, or nobody had asked for long
        if self._process is None:
            self._start()
        if self._is_ready:
            return
        first = self._answer(patience_s)
        if first is None:
            if time.monotonic() - self._started_at > START_LIMIT_S:
                self.end()
            raise SystemAway(f"Ray at {self._place.address} has not answered yet.")
        if first.problem:
            self.end()
            raise self._away(first.problem, has_library=first.kind != "no-library")
        self._is_ready, self.version = True, first.version

    def _start(self) -> None:
        words = [self._place.python or sys.executable, "-P", "-W", "ignore", "-m", "trainyard_ray", self._place.address]
        try:
            self._process = subprocess.Popen(
                words,
                env=environment(self._place.token),
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError as error:
            raise SystemAway(f"Ray cannot be asked: {words[0]}: {error.strerror or error}.") from error
        self._started_at = time.monotonic()

    def _exchange(self, call: Call) -> RayAnswer:
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(encode(asdict(call)).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            self.end()
            raise self._away(f"its program ended ({error.strerror})") from error
        answer = self._answer(call.limit_s + ANSWER_S)
        if answer is None:
            self.end()
            raise SystemAway(f"Ray at {self._place.address} did not answer within {call.limit_s + ANSWER_S:g} s.")
        return answer

    def _answer(self, limit_s: float) -> RayAnswer | None:
        """Return the next answer; None where none comes in time. Raises SystemAway where none can come any more."""
        assert self._process is not None and self._process.stdout is not None
        output, deadline = self._process.stdout.fileno(), time.monotonic() + limit_s
        while b"\n" not in self._read:
            if not select.select([output], [], [], max(0.0, deadline - time.monotonic()))[0]:
                return None
            piece = os.read(output, 1 << 16)
            self._read += piece
            if not piece or len(self._read) > MAX_ANSWER:
                self.end()
                raise self._away("its program ended")
        line, _, self._read = self._read.partition(b"\n")
        try:
            return decode(line, RayAnswer)
        except BadDocument as error:
            self.end()
            raise self._away(f"its answer cannot be read: {error}") from error

    def _away(self, words: str, *, has_library: bool = True) -> SystemAway:
        if not has_library:
            return SystemAway(f"Ray cannot be asked: {words}; install trainyard[ray] for it.")
        return SystemAway(f"Ray at {self._place.address} cannot be asked: {words.rstrip('.')}.")


def environment(token: str) -> dict[str, str]:
    """Ray hands a driver's environment on, so the server's own is kept from it."""
    made = {
        "PATH": os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": str(FOLDER),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        **user_variables(),
    }
    return {**made, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token} if token else made


_programs: dict[RayAddress, RayProgram] = {}
_programs_lock = threading.Lock()


def program_of(place: RayAddress) -> RayProgram:
    with _programs_lock:
        return _programs.setdefault(place, RayProgram(place))
