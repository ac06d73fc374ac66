"""Records that the SDK has taken and must bring to the disk: in order, within the spool's limit, counting what it
cannot."""

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import astuple

from trainyard.contract.records import AnyRecord, Begin, LossCounts, Lost, Media
from trainyard.spooling.writer import SpoolLimit, SpoolWriter

REPORT_EVERY_S = 1.0


class Outbox:
    """Records on their way into a producer's spool. For one thread at a time."""

    def __init__(self, folder: Path, make_begin: Callable[[], Begin]) -> None:
        self.num_refused_points = 0  # for which the spool's limit had no room
        self._folder = folder
        self._make_begin = make_begin
        self._unsent: deque[tuple[AnyRecord, int]] = deque()
        self._writer: SpoolWriter | None = None
        self._limit = SpoolLimit(folder)
        self._num_put = self._num_gone = 0  # bytes of data
        self._reported = LossCounts()
        self._reported_at = float("-inf")

    def __len__(self) -> int:
        return len(self._unsent)

    @property
    def num_points(self) -> int:
        return sum(num_points for _, num_points in self._unsent)

    @property
    def num_data_bytes(self) -> int:
        """Bytes of the media among the records."""
        return self._num_put - self._num_gone

    def put(self, record: AnyRecord, num_points: int) -> None:
        self._num_put += _data_bytes(record)
        self._unsent.append((record, num_points))

    def write(self, done: Callable[[int], None]) -> None:
        """Write the records in order and call ``done`` with the points of each that was written or refused.

        Raises OSError when the disk refuses one; it and those behind it stay.
        """
        if self._writer is None:
            self._writer = SpoolWriter(self._folder, begin=self._make_begin())
        while self._unsent:
            record, num_points = self._unsent[0]
            # A record without points is about a checkpoint or facts: small, and worth more than its room.
            if not num_points or self._limit.has_room(self._writer.num_bytes):
                self._writer.append(record)
            else:
                self.num_refused_points += num_points
            self._unsent.popleft()
            self._num_gone += _data_bytes(record)
            done(num_points)

    def report_losses(self, counts: LossCounts, *, is_last: bool = False) -> None:
        """Write what was lost since the last report, once a second at most. Raises OSError; then it is tried later."""
        if self._writer is None:
            return
        now = time.monotonic()
        pairs = zip(astuple(counts), astuple(self._reported), strict=True)
        news = LossCounts(*(count - known for count, known in pairs))
        if news != LossCounts() and (is_last or (now - self._reported_at >= REPORT_EVERY_S and self._limit.has_room())):
            self._writer.append(Lost(news))
            self._reported = counts
            self._reported_at = now

    def close(self, reason: str) -> None:
        """Write the end frame. Raises OSError."""
        if self._writer is not None:
            self._writer.close(reason)

    def abandon(self) -> None:
        if self._writer is not None:
            self._writer.abandon()


def _data_bytes(record: AnyRecord) -> int:
    return len(record.data) if isinstance(record, Media) else 0
