"""Media that were logged and are not encoded yet: so much as memory has room for, taken by the SDK's writing thread."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import msgspec

from trainyard.contract.records import MAX_LABELS, MAX_SEQUENCE, encode_record
from trainyard.contract.records import Media as MediaRecord
from trainyard.formats.media import Media
from trainyard.sdk.buffers import Labels, Refuse, is_name
from trainyard.spooling.frames import MAX_FRAME_BYTES, pack

MAX_BYTES = 64 * 1024 * 1024  # that wait for the disk, encoded or not
MAX_IN_LIST = 100  # of one name in one call
BUDGET_S = 0.05  # after so long the points that came meanwhile have their turn
LARGEST_HEAD = "0" * 32, MAX_SEQUENCE  # producer and sequence of a frame, at their largest

Album = list[tuple[str, Any]]  # what one call of log brought: names, and one or a list of each


class Logged(NamedTuple):
    name: str
    labels: Labels
    step: int
    time: float
    media: Media


class MediaQueue:
    """Queue in the order of putting. Several threads may put, and one takes at a time."""

    def __init__(self, lock: AbstractContextManager[Any], num_waiting: Callable[[], int]) -> None:
        self._lock = lock  # re-entrant
        self._num_waiting = num_waiting  # bytes that are encoded and wait for the disk
        self._logged: deque[Logged] = deque()
        self._num_bytes = 0

    def __len__(self) -> int:
        return len(self._logged)

    def put(self, logged: Logged) -> bool:
        """Take it; False where there is no room."""
        with self._lock:
            if self._num_bytes + self._num_waiting() + logged.media.num_bytes > MAX_BYTES:
                return False
            self._num_bytes += logged.media.num_bytes
            self._logged.append(logged)
            return True

    def take(self, refuse: Refuse) -> list[MediaRecord | None]:
        """Return what waited as records, as many as can be made in a while; None stands for one that cannot be."""
        found: list[MediaRecord | None] = []
        until = time.monotonic() + BUDGET_S
        while self._logged and (not found or time.monotonic() < until):
            with self._lock:
                logged = self._logged.popleft()
                self._num_bytes -= logged.media.num_bytes
            found.append(encoded(logged, refuse))
        return found


def spread(album: Album, labels: Labels, refuse: Refuse) -> Iterator[tuple[str, Labels, Media]]:
    """Yield what can be logged; items of a list get the label ``index``."""
    for name, value in album:
        if not is_name(name, refuse):
            continue
        if isinstance(value, Media):
            if _is_sound(name, value, refuse):
                yield name, labels, value
            continue
        if len(value) > MAX_IN_LIST:
            refuse(name, f"has {len(value)} in a list, the first {MAX_IN_LIST} are kept")
        given = dict(labels[: MAX_LABELS - 1])
        for index, one in enumerate(value[:MAX_IN_LIST]):
            if _is_sound(name, one, refuse):
                yield name, tuple(sorted({**given, "index": str(index)}.items())), one


def encoded(logged: Logged, refuse: Refuse) -> MediaRecord | None:
    """Return the record; None, after ``refuse`` got the reason, where it cannot be made or is too large."""
    record = MediaRecord(
        name=logged.name, labels=dict(logged.labels), step=logged.step, at=logged.time, kind=logged.media.kind, data=b""
    )
    try:
        meta, data = logged.media.encode(MAX_FRAME_BYTES - len(pack(*LARGEST_HEAD, record)) - 64)
        record.meta = msgspec.Raw(encode_record(meta))
        size = len(pack(*LARGEST_HEAD, record)) + len(data)
    except Exception as error:  # whatever foreign code raised, training goes on
        refuse(logged.name, f"cannot be encoded as {logged.media.kind}: {str(error) or type(error).__name__:.300}")
        return None
    if size > MAX_FRAME_BYTES:
        advice = f": {logged.media.advice}" if logged.media.advice else ""
        refuse(logged.name, f"has {len(data):,} bytes as {logged.media.kind}, and a record holds 1 MiB{advice}")
        return None
    record.data = data
    return record


def _is_sound(name: str, media: Media, refuse: Refuse) -> bool:
    if media.problem:
        refuse(name, media.problem)
    return not media.problem
