"""The server's time as this node knows it: a seal says when it was made, and a node's own clock may be off by hours."""

from __future__ import annotations

import time


class ServerClock:
    """Follows the times in the server's own sealed documents. Until the first one came, it shows this machine's."""

    def __init__(self) -> None:
        self._ahead_s: float | None = None  # of the monotonic clock, which no correction of this machine's time moves

    def set(self, at: float) -> None:
        """Follow ``at`` (Unix seconds), which the server wrote into a document that has just arrived."""
        if at > 0:
            self._ahead_s = at - time.monotonic()

    def now(self) -> float:
        return time.time() if self._ahead_s is None else time.monotonic() + self._ahead_s
