"""What the SDK has taken and must bring to the disk: in order, within the spool's limit, counting what it cannot."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path

from trainyard.spooling.frames import Payload
from trainyard.spooling.writer import SpoolLimit, SpoolWriter

TELL_EVERY_S = 1.0


class Outbox:
    """Payloads on their way into a producer's spool. For one thread at a time."""

    def __init__(self, folder: Path, make_begin: Callable[[], Payload]) -> None:
        self.num_refused_points = 0  # for which the spool's limit had no room
        self._folder = folder
        self._make_begin = make_begin
        self._unsent: deque[tuple[Payload, int]] = deque()
        self._writer: SpoolWriter | None = None
        self._limit = SpoolLimit(folder)
        self._num_put = self._num_gone = 0  # bytes of data
        self._told: Counter[str] = Counter()
        self._told_at = float("-inf")

    def __len__(self) -> int:
        return len(self._unsent)

    @property
    def num_points(self) -> int:
        return sum(num_points for _, num_points in self._unsent)

    @property
    def num_data_bytes(self) -> int:
        """What the media among the payloads hold."""
        return self._num_put - self._num_gone

    def put(self, payload: Payload, num_points: int) -> None:
        self._num_put += len(payload.get("data", b""))
        self._unsent.append((payload, num_points))

    def write(self, done: Callable[[int], None]) -> None:
        """Write the payloads in order and tell ``done`` the points of each that was written or refused.

        Raises OSError when the disk refuses one; it and those behind it stay.
        """
        if self._writer is None:
            self._writer = SpoolWriter(self._folder, begin=self._make_begin())
        while self._unsent:
            payload, num_points = self._unsent[0]
            # What has no points is a note: small, and worth more than the room that it takes.
            if not num_points or self._limit.has_room(self._writer.num_bytes):
                self._writer.append(payload)
            else:
                self.num_refused_points += num_points
            self._unsent.popleft()
            self._num_gone += len(payload.get("data", b""))
            done(num_points)

    def tell(self, counts: dict[str, int], *, is_last: bool = False) -> None:
        """Write what was lost since it was told last, once a second at most. Raises OSError; then it is told later."""
        if self._writer is None:
            return
        now = time.monotonic()
        news = {code: count - self._told[code] for code, count in counts.items() if count > self._told[code]}
        if news and (is_last or (now - self._told_at >= TELL_EVERY_S and self._limit.has_room())):
            self._writer.append({"t": "lost", "counts": news})
            self._told.update(news)
            self._told_at = now

    def close(self, reason: str) -> None:
        """Write the end frame. Raises OSError."""
        if self._writer is not None:
            self._writer.close(reason)

    def abandon(self) -> None:
        if self._writer is not None:
            self._writer.abandon()
