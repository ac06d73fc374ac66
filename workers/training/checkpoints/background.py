"""One piece of work at a time, in a thread beside training."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Background:
    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None

    def start(self, work: Callable[..., None], *arguments: Any) -> None:
        # A daemon: a training that fails must not wait for its disk.
        self._thread = threading.Thread(target=work, args=arguments, name=self._name, daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Return whether nothing is being done any more."""
        if self._thread is not None:
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                return False
            self._thread = None
        return True
