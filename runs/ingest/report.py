"""Points that come over REST: through the same commit as the stream's, so that a request may be repeated."""

import time
from array import array
from collections.abc import Iterable

from runs.ingest.commit import REST, Source, commit
from runs.ingest.push import push_now
from runs.ingest.validation.records import Incoming, Record, incoming
from runs.ingest.validation.rules import rows
from runs.models import Run
from runs.records.metrics.models import Producer
from runs.records.points.tables import Rows
from trainyard.contract.records import Group
from trainyard.grouping import grouped

SCRIPT = Source(role="script")
Point = tuple[str, dict[str, str], int, float | None, float]  # name, labels, step, time (None: now), value


class Gap(ValueError):
    """Batches before this one are missing; ``expected`` is the next that can be taken."""

    def __init__(self, sequence: int, expected: int) -> None:
        super().__init__(f"Batches before {sequence} are missing; send sequence {expected} first.")
        self.expected = expected


class Foreign(ValueError):
    """A producer's name belongs to somebody who reports in another way."""


def report_points(run: Run, *, producer: str, sequence: int, points: Iterable[Point], is_end: bool = False) -> int:
    """Store one batch of a REST producer and return its watermark. A batch that was stored before changes nothing.

    Raises Gap, Foreign, and BadRecord where a name or a label cannot be stored.
    """
    record = Record(points=_rows(points, time.time()), is_end=is_end)
    batch = [Incoming(raw=b"", producer=producer, sequence=sequence, record=record)]
    committed = commit(run.pk, fence=run.fence, source=Source(role=REST), batch=batch)
    if producer in committed.foreign:
        raise Foreign(f"producer {producer} is not one that reports over REST")
    watermark = committed.watermarks[producer]
    if watermark < sequence:
        raise Gap(sequence, watermark + 1)
    push_now(committed)
    return watermark


def _rows(points: Iterable[Point], now: float) -> list[Rows]:
    groups = grouped(
        ((name, tuple(sorted(labels.items()))), (step, now if at is None else at, value))
        for name, labels, step, at, value in points
    )
    found = []
    for (name, pairs), group in groups.items():
        columns = [array(kind, column).tobytes() for kind, column in zip("qdd", zip(*group, strict=True), strict=True)]
        found.append(rows(Group(dict(pairs), (name,), *columns)))
    return found


# Frames of a run that was logged elsewhere: what `trainyard sync` reads from its disk, through the one commit.


def store_frames(run: Run, data: bytes) -> dict[str, int]:
    """Store what is new in ``data`` and return the watermark of each producer in it, from which to go on.

    Frames that came before change nothing; those behind a gap are refused, as the watermark shows. Raises Foreign.
    """
    committed = commit(run.pk, fence=run.fence, source=SCRIPT, batch=incoming(data))
    push_now(committed)
    if committed.foreign:
        raise Foreign(f"producer {min(committed.foreign)} of run {run.pk} reports over REST")
    return committed.watermarks


def watermarks(run: Run) -> dict[str, int]:
    return dict(Producer.objects.filter(run_id=run.pk).exclude(role=REST).values_list("producer", "watermark"))
