"""What ingest does besides: it compacts and deletes while it has nothing to read, and tidies up once an hour."""

from __future__ import annotations

import time

from django.utils import timezone

from runs.audit.retention import remove_old
from runs.ingest import dead_letters as letters
from runs.ingest.commit import Committed
from runs.ingest.dead_letters import Letters
from runs.metrics.erase import delete_run_data, sweep
from runs.metrics.models import NodeSample, Telemetry
from runs.models import Run
from runs.points.compaction.compactor import Compactor
from runs.retention import forget_old

KEEP_SAMPLES_S = 24 * 3600.0
EVERY_S = 3600.0
SLICE_S = 0.01  # a step may take 20 ms more, and what comes meanwhile waits for it


class Housekeeping:
    """Knows when there is something to do. Compaction is done in slices, so that what comes meanwhile waits for no
    more than one of them; under load it is not done at all, until too much has come together."""

    def __init__(self, shard: int, written: Letters) -> None:
        self._compactor = Compactor(lambda run_id: Run.objects.filter(pk=run_id, shard=shard).exists())
        self._shard = shard
        self._letters = written
        self._is_at_it = False
        self._pruned_at = time.monotonic()

    @property
    def is_at_it(self) -> bool:
        """Whether the last slice may not have been the last one."""
        return self._is_at_it

    def record(self, committed: Committed) -> None:
        if committed.cursor != committed.start:
            num_points = sum(piece.columns.size for piece in committed.pieces)
            self._compactor.record(committed.run_id, committed.cursor, num_points)

    def idle(self) -> None:
        """There was nothing to read."""
        self._is_at_it = self._compactor.slice(SLICE_S) or sweep(SLICE_S)
        if time.monotonic() - self._pruned_at >= EVERY_S:
            self._pruned_at = time.monotonic()
            prune(time.time())
            forget_old(timezone.now(), self._shard)
            if self._shard == 0:
                remove_old(timezone.now())
            self._letters.pruned()

    def in_between(self) -> None:
        """There was something to read, and there may be more."""
        if self._compactor.is_behind():
            self._compactor.slice(SLICE_S)


def prune(now: float) -> None:
    """Delete samples older than a day (``now`` in Unix seconds), dead letters that are too old or too many, and what
    arrived for runs after they were deleted."""
    NodeSample.objects.filter(at__lt=now - KEEP_SAMPLES_S).delete()
    letters.prune()
    stored = list(Telemetry.objects.values_list("run_id", flat=True))
    for run_id in set(stored) - set(Run.objects.filter(pk__in=stored).values_list("pk", flat=True)):
        delete_run_data(run_id)
