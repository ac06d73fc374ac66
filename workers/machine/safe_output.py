"""Standard output that a full disk does not turn into an error: a log line that does not fit ends no process."""

import io
import os
import sys


class SafeOutput(io.TextIOBase):
    """Writes through to a descriptor, without a buffer, and drops what does not fit."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, text: str) -> int:
        data = text.encode("utf-8", "backslashreplace")
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:  # full, or nobody reads any more
            pass
        return len(text)

    def fileno(self) -> int:
        return self._descriptor

    def writable(self) -> bool:
        return True


def make_output_safe() -> None:
    """Let this process print so from here on."""
    sys.stdout, sys.stderr = SafeOutput(1), SafeOutput(2)
