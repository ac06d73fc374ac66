"""Words in the log for what takes long: how much of it is done."""

import sys
import threading
import time
from typing import Any

from trainyard.formats.figures import size

EVERY_S = 10.0


class DataProgress:
    """Counts ``unit`` from any thread, and says every ten seconds how many there are; what is quicker says nothing.

    On stderr: where only facts are asked for, stdout is theirs.
    """

    def __init__(self, words: str, total: int | None, unit: str = "bytes") -> None:
        self._words, self._total, self._unit = words, total, unit
        self._done, self._told_at, self._lock = 0, time.monotonic(), threading.Lock()

    def add(self, number: int) -> None:
        with self._lock:
            self._done += number
            now = time.monotonic()
            if now - self._told_at < EVERY_S:
                return
            self._told_at = now
            of = f" of {self._in_words(self._total)}" if self._total else ""
        print(f"{self._words}: {self._in_words(self._done)}{of}", file=sys.stderr, flush=True)

    def _in_words(self, number: int) -> str:
        return size(number) if self._unit == "bytes" else f"{number:,} {self._unit}"

    def callback(self) -> Any:
        """Return fsspec's callback for the bytes of one file."""
        from fsspec.callbacks import Callback

        progress = self

        class Counted(Callback):  # type: ignore[misc]  # fsspec has no types
            def relative_update(self, inc: int = 1) -> None:
                progress.add(inc)

        return Counted()
