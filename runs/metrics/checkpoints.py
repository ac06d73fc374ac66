"""What is known of checkpoints: written from what ranks told of them, read by whoever wants to go on from one.

Writing happens inside the transaction of a batch, under the lock of the run's row. The files themselves lie on the
nodes; nothing here ever opens one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import F

from runs.metrics.models import Checkpoint, CheckpointUse, Producer
from runs.metrics.rows import IDS_PER_QUERY, delete_rows

SAVED, DELETED, INVALID, RESTORED, OFF = STATES = ("saved", "deleted", "invalid", "restored", "off")
MAX_NOTES = 1_000  # of one batch: the last; no training comes near it
MAX_PER_RUN = 10_000  # those that were deleted longest ago go first
SLACK = 500
MAX_USES_PER_RUN = 1_000
CHANGING = (
    "bytes", "num_files", "world_size", "degrees", "took_s", "stall_s", "at", "rank", "node", "producer", "is_late",
    "deleted_at", "invalid_why",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Note:
    """What a rank told. ``run`` is empty and ``fence`` None where it speaks of its own; ``facts`` are columns of what
    was saved."""

    state: str
    step: int | None = None
    fence: int | None = None
    run: str = ""
    at: float | None = None
    why: str = ""
    is_missing: bool = False  # what is called invalid was only not found: another node may have it
    facts: dict[str, Any] = field(default_factory=dict)


def write_notes(run_id: str, *, attempt: int, newest: int, now: float, notes: Sequence[tuple[Producer, Note]]) -> int:
    """Store what ranks of ``attempt`` (a fence) told, in order, and return how much of it could not be kept.

    ``newest`` is the run's newest fence. An attempt may only save its own, and speaks of nothing that is newer than
    itself; about another run's it may say what became of it here, which changes nothing there.
    """
    kept = notes[-MAX_NOTES:]
    num_refused = len(notes) - len(kept)
    rows = _rows(run_id, {note.step for _, note in kept if note.step is not None})
    changed: dict[tuple[int, int], Checkpoint] = {}
    uses = []
    for producer, note in kept:
        is_own = note.run in ("", run_id)
        fence = attempt if note.fence is None else note.fence
        at = now if note.at is None else note.at
        is_allowed = is_own and fence == attempt if note.state == SAVED else not is_own or fence <= attempt
        if not is_allowed:
            num_refused += 1
            continue
        if note.state in (RESTORED, INVALID, OFF):
            about = {"step": note.step, "fence": fence, "source_run": note.run or run_id}
            uses.append(CheckpointUse(run_id=run_id, attempt=attempt, state=note.state, at=at, why=note.why, **about))
        if not is_own or note.step is None:
            continue
        key = note.step, fence
        if note.state == SAVED:
            known = rows.get(key) or Checkpoint(run_id=run_id, step=note.step, fence=fence)
            rows[key] = changed[key] = _saved(known, producer, note, at, is_late=attempt < newest)
        elif note.state == DELETED and key in rows:
            rows[key].deleted_at = at
            changed[key] = rows[key]
        elif note.state == INVALID and key in rows and not note.is_missing:
            rows[key].invalid_why = note.why or "It could not be read."
            changed[key] = rows[key]
    _save(run_id, changed.values())
    return num_refused + _save_uses(run_id, uses)


def candidates(run_id: str, *, before: int, number: int) -> list[Checkpoint]:
    """Return the newest checkpoints to go on from that attempts with fences below ``before`` left, newest first.

    A newer attempt's go before an older one's, whatever their steps: what an older one did after the newer had begun
    is not this training's past.
    """
    return list(Checkpoint.objects.sound().filter(run_id=run_id, fence__lt=before).order_by("-fence", "-step")[:number])


def find(run_id: str, step: int) -> Checkpoint | None:
    """Return the run's checkpoint of that step to go on from, the newest attempt's; None where there is none."""
    return Checkpoint.objects.sound().filter(run_id=run_id, step=step).order_by("-fence").first()


def _saved(row: Checkpoint, producer: Producer, note: Note, at: float, *, is_late: bool) -> Checkpoint:
    row.at, row.is_late = at, is_late
    row.rank, row.node, row.producer = producer.rank, producer.node, producer.producer
    row.deleted_at, row.invalid_why = None, ""
    for name, value in note.facts.items():
        setattr(row, name, value)
    return row


def _rows(run_id: str, steps: set[int]) -> dict[tuple[int, int], Checkpoint]:
    found: dict[tuple[int, int], Checkpoint] = {}
    wanted = sorted(steps)
    for start in range(0, len(wanted), IDS_PER_QUERY):
        rows = Checkpoint.objects.filter(run_id=run_id, step__in=wanted[start : start + IDS_PER_QUERY])
        found.update(((row.step, row.fence), row) for row in rows)
    return found


def _save(run_id: str, changed: Iterable[Checkpoint]) -> None:
    rows = list(changed)
    new, old = [row for row in rows if row._state.adding], [row for row in rows if not row._state.adding]
    Checkpoint.objects.bulk_create(new)
    Checkpoint.objects.bulk_update(old, CHANGING, batch_size=100)
    if new:
        _forget_oldest(run_id)


def _forget_oldest(run_id: str) -> None:
    rows = Checkpoint.objects.filter(run_id=run_id)
    number = rows.count() - MAX_PER_RUN
    if number > SLACK:
        oldest = rows.order_by(F("deleted_at").asc(nulls_last=True), "pk")
        delete_rows(Checkpoint, list(oldest.values_list("pk", flat=True)[:number]))


def _save_uses(run_id: str, uses: list[CheckpointUse]) -> int:
    if not uses:
        return 0
    room = max(0, MAX_USES_PER_RUN - CheckpointUse.objects.filter(run_id=run_id).count())
    CheckpointUse.objects.bulk_create(uses[:room])
    return len(uses) - len(uses[:room])
