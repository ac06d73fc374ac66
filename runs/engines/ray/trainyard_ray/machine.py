"""The actor of one machine: it runs the node program as its child."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

MAX_WORDS = 600
OURS = ("RAY_", "OMP_NUM_THREADS", "PYTHONPATH", "PYTHONBREAKPOINT", "SPT_", "JOB_ID")  # Ray's, not for the child


class Machine:
    """The program on one machine. Methods run in threads: one serves, another one stops. However this process ends, the
    child ends too: it reads a pipe whose other end is here (``trainyard.lifeline``)."""

    def __init__(self, words: list[str], variables: dict[str, str], output: str) -> None:
        self._words, self._variables, self._output = words, variables, output
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopped = False

    def serve(self) -> tuple[int, str]:
        read, self._lifeline = os.pipe()
        words = [self._words[0] or sys.executable, *self._words[1:]]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        environment = {**inherited, **self._variables, "TRAINYARD_LIFELINE": str(read)}
        try:
            with Path(self._output).open("ab") as output:
                begins_at = output.tell()
                self._process = subprocess.Popen(
                    words,
                    env=environment,
                    cwd="/",
                    umask=0o077,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=(read,),
                    start_new_session=True,  # a signal to Ray's process group is not for it
                )
        except OSError as error:
            return 127, f"{error.filename or words[0]}: {error.strerror}"
        finally:
            os.close(read)
        if self._is_stopped:
            self.stop()
        code = self._process.wait()
        return code, "" if code == 0 else self._last_words(begins_at)

    def stop(self) -> None:
        """Ask the program to leave."""
        self._is_stopped = True
        self._signal(signal.SIGTERM)

    def notice(self) -> None:
        """The machine is taken back soon: its ranks are to save and end."""
        self._signal(signal.SIGURG)

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def _last_words(self, begins_at: int) -> str:
        try:
            with Path(self._output).open("rb") as output:
                size = output.seek(0, os.SEEK_END)
                output.seek(max(begins_at, size - 4 * MAX_WORDS))
                lines = output.read().decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return (lines[-1] if lines else "")[:MAX_WORDS]
