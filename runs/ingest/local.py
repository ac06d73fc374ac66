"""Frames of a run that was logged elsewhere: what `trainyard sync` reads from its disk, through the one commit."""

from __future__ import annotations

from runs.ingest.commit import REST, Source, commit
from runs.ingest.push import push_now
from runs.ingest.validation.records import incoming
from runs.models import Run
from runs.records.metrics.models import Producer

SCRIPT = Source(role="script")


class Foreign(ValueError):
    """A producer's name belongs to somebody who reports in another way."""


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
    """Return how far the records of each of the run's processes have arrived."""
    rows = Producer.objects.filter(run_id=run.pk).exclude(role=REST)
    return dict(rows.values_list("producer", "watermark"))
