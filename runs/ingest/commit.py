"""The one way into the metric store, for the stream and for REST: what was seen is dropped, what is behind a gap is
refused, everything else is written together with the watermark that says so.

Because points and watermark are in one transaction, a batch may be handed in again at any time, whole or in parts,
by anybody: each point is stored once. Whoever hands it in acknowledges it to the sender only after commit() returned.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from runs.ingest.records import Incoming, named
from runs.metrics import store
from runs.metrics.models import DeadLetter, Producer, Telemetry
from runs.metrics.pace import Pace, advanced

REST = "rest"


@dataclass(frozen=True)
class Source:
    """Who hands the frames in, as far as that is proven: a node by its seal, or a member by their token."""

    node_id: str = ""
    node_name: str = ""
    role: str = "rank"


@dataclass(frozen=True)
class Committed:
    """What a batch changed. ``start`` equals ``cursor`` when everything in it was old or refused."""

    run_id: str
    attempt: int
    start: int
    cursor: int
    pieces: list[store.Piece] = field(default_factory=list)
    lines: list[store.Lines] = field(default_factory=list)
    watermarks: dict[str, int] = field(default_factory=dict)  # of the producers in the batch
    gaps: set[str] = field(default_factory=set)  # producers whose frames were refused: send from the watermark
    foreign: set[str] = field(default_factory=set)  # producers that belong to somebody else


def commit(run_id: str, *, fence: int, source: Source, batch: list[Incoming]) -> Committed:
    """Store what is new in the batch, in one transaction. Raises what the database raises; then nothing was stored."""
    with transaction.atomic(using=settings.METRICS_DATABASE):
        return _Commit(run_id, fence, source, timezone.now()).run(batch)


class _Commit:
    def __init__(self, run_id: str, fence: int, source: Source, now: datetime) -> None:
        self.run_id = run_id
        self.fence = fence
        self.source = source
        self.now = now
        # This row is the run's lock: cursors grow by one, and the producers' rows below it have one writer.
        Telemetry.objects.get_or_create(run_id=run_id)
        self.telemetry = Telemetry.objects.select_for_update().get(run_id=run_id)

    def run(self, batch: list[Incoming]) -> Committed:
        start = self.telemetry.cursor
        rows, foreign = self._producers({item.producer for item in batch if item.producer})
        batch = named(batch, {name: row.watermark for name, row in rows.items()})
        self._bury_unknown([item for item in batch if not item.producer], "")
        self._bury_unknown([item for item in batch if item.producer in foreign], "the producer belongs to another: ")
        by_producer: dict[str, list[Incoming]] = {}
        for item in batch:
            by_producer.setdefault(item.producer, []).append(item)
        fresh = [item for name, row in rows.items() for item in self._accept(row, by_producer[name])]
        pieces, lines = self._store(fresh)
        return Committed(
            run_id=self.run_id,
            attempt=self.fence,
            start=start,
            cursor=self.telemetry.cursor,
            pieces=pieces,
            lines=lines,
            watermarks={name: row.watermark for name, row in rows.items()},
            gaps={name for name, row in rows.items() if row.has_gap},
            foreign=foreign,
        )

    def _producers(self, names: set[str]) -> tuple[dict[str, Producer], set[str]]:
        """Return the rows of these producers (new ones unsaved), and the names that are another sender's.

        A producer is one process: it has one node (none over REST). So a node that may speak for an attempt may
        still not speak for the ranks of another node, nor for whoever reports over REST.
        """
        rows = {row.producer: row for row in Producer.objects.filter(run_id=self.run_id, producer__in=names)}
        is_rest = self.source.role == REST
        foreign = {
            name
            for name, row in rows.items()
            if (row.role == REST) != is_rest or row.node != self.source.node_name
        }  # fmt: skip
        for name in sorted(names - rows.keys()):
            rows[name] = Producer(
                run_id=self.run_id,
                producer=name,
                attempt=self.fence,
                role=self.source.role,
                node=self.source.node_name,
            )
        return {name: row for name, row in rows.items() if name not in foreign}, foreign

    def _accept(self, row: Producer, items: Iterable[Incoming]) -> list[Incoming]:
        """Return the frames that continue the producer's prefix, and move its watermark behind them."""
        by_sequence: dict[int, Incoming] = {}
        for item in items:
            twin = by_sequence.get(item.sequence)
            if item.sequence > row.watermark and (twin is None or twin.poison):
                by_sequence[item.sequence] = item  # of two copies the sound one
        fresh = []
        while row.watermark + 1 in by_sequence:
            row.watermark += 1
            fresh.append(by_sequence.pop(row.watermark))
            self._note(row, fresh[-1])
        if by_sequence:
            row.has_gap = row.role != REST  # over REST the answer itself says so
        elif fresh:
            row.has_gap = False
        if fresh:
            row.last_record_at = self.now
        if fresh or by_sequence:
            row.save()
        return fresh

    def _note(self, row: Producer, item: Incoming) -> None:
        if item.record is None:
            row.num_dead_letters += 1
            self._bury(item, item.poison)
            return
        if item.record.begin is not None:
            row.role, row.rank = item.record.begin["role"], item.record.begin["rank"]
        if item.record.is_end:
            row.end_sequence = item.sequence

    def _store(self, fresh: list[Incoming]) -> tuple[list[store.Piece], list[store.Lines]]:
        if not fresh:
            return [], []
        known = [(item, item.record) for item in fresh if item.record is not None]
        pieces = store.merged(
            store.Piece(item.producer, item.sequence, name, labels, columns)
            for item, record in known
            for name, labels, columns in record.points
        )
        lines = [record.lines for _, record in known if record.lines is not None and record.lines.lines]
        telemetry = self.telemetry
        telemetry.cursor += 1
        telemetry.last_record_at = self.now
        telemetry.num_points += sum(piece.columns.size for piece in pieces)
        telemetry.num_lines += sum(len(part.lines) for part in lines)
        pace = Pace(telemetry.attempt, telemetry.step, telemetry.step_at, telemetry.intervals_s)
        pace = advanced(pace, self.fence, ((piece.name, piece.columns) for piece in pieces))
        telemetry.attempt, telemetry.step, telemetry.step_at = pace.attempt, pace.step, pace.step_at
        telemetry.intervals_s, telemetry.median_step_s = pace.intervals_s, pace.median_step_s
        store.write_points(self.run_id, attempt=self.fence, cursor=telemetry.cursor, pieces=pieces)
        store.write_lines(self.run_id, attempt=self.fence, cursor=telemetry.cursor, lines=lines)
        telemetry.save()
        return pieces, lines

    def _bury_unknown(self, items: list[Incoming], why: str) -> None:
        """Keep frames that move no watermark. They come again with each resend, so they are looked for first."""
        for item in items:
            if not DeadLetter.objects.filter(
                run_id=self.run_id,
                node_id=self.source.node_id,
                producer=item.producer,
                sequence=item.sequence or None,
                reason=why + item.poison,
            ).exists():
                self._bury(item, why + item.poison)

    def _bury(self, item: Incoming, reason: str) -> None:
        DeadLetter.objects.create(
            run_id=self.run_id,
            node_id=self.source.node_id,
            producer=item.producer,
            sequence=item.sequence or None,
            reason=reason,
            data=item.raw,
        )
