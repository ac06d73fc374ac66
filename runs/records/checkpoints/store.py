"""Storing what ranks report of checkpoints.

It happens inside the transaction of a batch, under the lock of the run's row. The files themselves lie on the
nodes; nothing here ever opens one.
"""

from collections.abc import Sequence

from django.db.models import F

from runs.records.checkpoints.read import ANEW, DELETED, INVALID, OFF, RESTORED, SAVED
from runs.records.metrics.bulk import delete_rows, in_parts
from runs.records.metrics.models import Checkpoint, CheckpointUse, Producer
from trainyard.contract.records import Checkpoint as Report

MAX_REPORTS = 1_000  # of one batch: the last; no training comes near it
MAX_PER_RUN = 10_000  # those that were deleted longest ago go first
SLACK = 500
MAX_USES_PER_RUN = 1_000
FACTS = ("bytes", "num_files", "world_size", "degrees", "took_s", "stall_s", "key_version")  # that a report says
CHANGING = (*FACTS, "at", "rank", "node", "producer", "is_late", "deleted_at", "invalid_why")


def write_reports(
    run_id: str, *, attempt: int, newest: int, now: float, reports: Sequence[tuple[Producer, Report]]
) -> int:
    """Store the reports of ranks of ``attempt`` (a fence) in order, and return how many could not be kept.

    ``newest`` is the run's newest fence. An attempt may only save its own checkpoints, and report on none newer than
    itself. Its report on another run's checkpoint is kept here and changes nothing there.
    """
    kept = reports[-MAX_REPORTS:]
    batch = _Batch(run_id, attempt, {report.step for _, report in kept if report.step is not None})
    num_taken = sum(batch.take(producer, report, now, is_late=attempt < newest) for producer, report in kept)
    return len(reports) - num_taken + batch.save()


class _Batch:
    """One attempt's reports of a batch, applied to the rows that they are about."""

    def __init__(self, run_id: str, attempt: int, steps: set[int]) -> None:
        self._run_id, self._attempt = run_id, attempt
        self._rows: dict[tuple[int, int], Checkpoint] = {}
        self._changed: dict[tuple[int, int], Checkpoint] = {}
        self._uses: list[CheckpointUse] = []
        for some in in_parts(sorted(steps)):
            rows = Checkpoint.objects.filter(run_id=run_id, step__in=some)
            self._rows.update(((row.step, row.fence), row) for row in rows)

    def take(self, producer: Producer, report: Report, now: float, *, is_late: bool) -> bool:
        """Take one report; False where this attempt may not report it."""
        is_own = report.run in ("", self._run_id)
        fence = self._attempt if report.fence is None else report.fence
        at = now if report.at is None else report.at
        if report.state == SAVED:
            if not is_own or fence != self._attempt:
                return False
        elif is_own and fence > self._attempt:
            return False
        if report.state in (RESTORED, INVALID, ANEW, OFF):
            about = {"step": report.step, "fence": fence, "source_run": report.run or self._run_id}
            said = {"state": report.state, "at": at, "why": report.why, "memory": report.memory}
            self._uses.append(CheckpointUse(run_id=self._run_id, attempt=self._attempt, **said, **about))
        if is_own and report.step is not None and not report.memory:  # a state in memory has no row
            self._change((report.step, fence), producer, report, at, is_late=is_late)
        return True

    def save(self) -> int:
        """Write it all and return how many uses found no room."""
        rows = list(self._changed.values())
        new, old = [row for row in rows if row._state.adding], [row for row in rows if not row._state.adding]
        Checkpoint.objects.bulk_create(new)
        Checkpoint.objects.bulk_update(old, CHANGING, batch_size=100)
        if new:
            _forget_oldest(self._run_id)
        if not self._uses:
            return 0
        room = max(0, MAX_USES_PER_RUN - CheckpointUse.objects.filter(run_id=self._run_id).count())
        CheckpointUse.objects.bulk_create(self._uses[:room])
        return len(self._uses[room:])

    def _change(self, key: tuple[int, int], producer: Producer, report: Report, at: float, *, is_late: bool) -> None:
        row = self._rows.get(key)
        if report.state == SAVED:
            row = row or Checkpoint(run_id=self._run_id, step=key[0], fence=key[1])
            row.at, row.is_late, row.deleted_at, row.invalid_why = at, is_late, None, ""
            row.rank, row.node, row.producer = producer.rank, producer.node, producer.producer
            for name in FACTS:
                setattr(row, name, getattr(report, name))
        elif row is not None and report.state == DELETED:
            row.deleted_at = at
        elif row is not None and report.state == INVALID and not report.missing:
            row.invalid_why = report.why or "It could not be read."
        else:
            return
        self._rows[key] = self._changed[key] = row


def _forget_oldest(run_id: str) -> None:
    rows = Checkpoint.objects.filter(run_id=run_id)
    number = rows.count() - MAX_PER_RUN
    if number > SLACK:
        oldest = rows.order_by(F("deleted_at").asc(nulls_last=True), "pk")
        delete_rows(Checkpoint, list(oldest.values_list("pk", flat=True)[:number]))
