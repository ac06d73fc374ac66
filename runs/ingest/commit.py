"""The one way into the metric store, for the stream and for REST: frames seen before are dropped, those behind a gap
are refused, all others are written together with their watermark.

Because points and watermark are in one transaction, a batch may be repeated at any time, whole or in parts, by any
sender: each point is stored once. The caller acknowledges a batch to its sender only after commit() returned and, where
commit() was called inside a larger transaction, after that one is committed.
"""

import json
import struct
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from runs.ingest import troubles
from runs.ingest.alerts import raise_alerts
from runs.ingest.memory import Known, Memory
from runs.ingest.troubles import Letters
from runs.ingest.validation.records import Incoming, Record, named
from runs.models import Run
from runs.records.checkpoints import store as checkpoints
from runs.records.logs.writing import num_stored_bytes
from runs.records.media import store as media
from runs.records.metrics import bulk, progress
from runs.records.metrics.models import Producer, Telemetry
from runs.records.points import store
from runs.records.points.pace import Pace, advanced
from runs.records.points.tables import PointMatrix, merged
from trainyard.at_rest.keyring import NO_KEYS, Keyring
from trainyard.grouping import grouped

REST = "rest"
SUPERVISOR = "supervisor"
NUMBER = struct.Struct("<d")
# Columns of a run's row that a commit changes. Compaction keeps its own cursor there.
TELEMETRY = (
    "cursor", "step", "step_at", "median_step_s", "attempt", "intervals_s", "last_record_at", "record_minute",
    "num_points", "num_lines", "troubles",
)  # fmt: skip
PRODUCER = ("role", "rank", "watermark", "end_sequence", "has_gap", "num_dead_letters", "last_record_at")


@dataclass(frozen=True)
class Source:
    """The proven sender of the frames: a node by its seal, or a member by their token."""

    node_id: str = ""
    node_name: str = ""
    role: str = "rank"
    ranks: range | None = None  # which the node has of the attempt; None: nobody placed any


@dataclass(frozen=True)
class Committed:
    """Changes of a batch. ``start`` equals ``cursor`` when everything in it was old or refused."""

    run_id: str
    attempt: int
    start: int
    cursor: int
    pieces: list[store.SeriesPiece] = field(default_factory=list)
    lines: list[store.StreamLines] = field(default_factory=list)
    has_checkpoints: bool = False  # a record reports a checkpoint
    has_media: bool = False
    has_end: bool = False  # a supervisor's last record is among them: nothing more follows from its node
    watermarks: dict[str, int] = field(default_factory=dict)  # of the producers in the batch
    foreign: set[str] = field(default_factory=set)  # producers that belong to somebody else


def commit(
    run_id: str,
    *,
    fence: int,
    source: Source,
    batch: list[Incoming],
    memory: Memory | None = None,
    letters: Letters | None = None,
) -> Committed:
    """Store what is new in the batch, in one transaction (a savepoint within the caller's). Raises what the database
    raises; then nothing was stored. ``memory`` keeps what the next batch of the run would have to read."""
    memory, letters = memory or Memory(), letters or Letters()
    with transaction.atomic(using=settings.METRICS_DATABASE):
        known = memory.lock(run_id)
        committed = _Commit(known, fence, source, letters, timezone.now()).run(batch)
    memory.keep(known)
    return committed


class _Commit:
    def __init__(self, known: Known, fence: int, source: Source, letters: Letters, now: datetime) -> None:
        # Its row is the run's lock: cursors grow by one, and the producers' rows below it have one writer.
        self.known = known
        self.telemetry = known.telemetry
        self.run_id = known.telemetry.run_id
        self.fence = fence
        self.source = source
        self.letters = letters
        self.now = now
        self.troubles: Counter[str] = Counter()
        self.num_media = 0
        self.keyring: Keyring | None = NO_KEYS  # None: it is needed, and cannot be had now

    def run(self, batch: list[Incoming]) -> Committed:
        start = self.telemetry.cursor
        self.keyring = self._keyring_for(batch)
        rows, foreign = self._producers({item.producer or item.claim[0] for item in batch} - {""})
        if not all(item.producer for item in batch):
            batch = named(batch, {name: row.watermark for name, row in rows.items()})
        by_producer = grouped((item.producer, item) for item in batch)
        self._bury_unknown(by_producer.get("", []), "")
        for name in foreign:
            self._bury_unknown(by_producer.get(name, []), "the producer belongs to another: ")
        fresh = [item for name, row in rows.items() for item in self._accept(row, by_producer.get(name, []))]
        matrices, lines = self._store(fresh)
        self._save(is_new=bool(fresh))
        return Committed(
            run_id=self.run_id,
            attempt=self.fence,
            start=start,
            cursor=self.telemetry.cursor,
            pieces=[piece for matrix in matrices for piece in matrix.pieces()],
            lines=lines,
            has_checkpoints=any(item.record is not None and item.record.checkpoint for item in fresh),
            has_media=self.num_media > 0,
            has_end=any(row.role == SUPERVISOR and row.end_sequence == row.watermark for row in rows.values()),
            watermarks={name: row.watermark for name, row in rows.items()},
            foreign=foreign,
        )

    def _keyring_for(self, batch: list[Incoming]) -> Keyring | None:
        """Return the keys for what the batch has of lines and media. Where they cannot be had its frames are refused
        like those behind a gap: they stay in their spools and come again, and other runs do not wait for it."""
        records = [item.record for item in batch]
        if all(one is not None and one.lines is None and one.media is None for one in records):
            return NO_KEYS
        return self.known.current_keyring()

    def _producers(self, names: set[str]) -> tuple[dict[str, Producer], set[str]]:
        """Return the rows of these producers (new ones unsaved), and the names that are another sender's.

        A producer is one process on one node (none over REST). So a node of an attempt may not send frames of
        another node's ranks, nor of a REST sender.
        """
        known = self.known.producers
        if missing := names - known.keys():
            known.update((p.producer, p) for p in Producer.objects.filter(run_id=self.run_id, producer__in=missing))
        rows = {name: known[name] for name in names if name in known}
        is_rest = self.source.role == REST
        foreign = {
            name
            for name, row in rows.items()
            if (row.role == REST) != is_rest or row.node != self.source.node_name
        }  # fmt: skip
        for name in sorted(names - rows.keys()):
            rows[name] = Producer(
                run_id=self.run_id, producer=name, attempt=self.fence, role=self.source.role, node=self.source.node_name
            )
        return {name: row for name, row in rows.items() if name not in foreign}, foreign

    def _accept(self, row: Producer, items: Iterable[Incoming]) -> list[Incoming]:
        """Return the frames that continue the producer's prefix, and move its watermark behind them."""
        by_sequence: dict[int, Incoming] = {}
        for item in items:
            twin = by_sequence.get(item.sequence)
            if item.sequence > row.watermark and (twin is None or twin.problem):
                by_sequence[item.sequence] = item  # of two copies the sound one
            else:
                self.troubles[troubles.REPEATED] += 1
        fresh = []
        while row.watermark + 1 in by_sequence and self.keyring is not None:
            row.watermark += 1
            fresh.append(self._of_its_ranks(by_sequence.pop(row.watermark)))
            self._note(row, fresh[-1])
        self.troubles[troubles.GAP] += len(by_sequence)
        had_gap = row.has_gap
        if by_sequence:
            row.has_gap = row.role != REST  # over REST the answer reports the gap
        elif fresh:
            row.has_gap = False
        if fresh:
            row.last_record_at = self.now
        if fresh or (by_sequence and (row._state.adding or row.has_gap != had_gap)):
            self._save_producer(row)
        return fresh

    def _of_its_ranks(self, item: Incoming) -> Incoming:
        """Return the frame, without its record where that speaks for a rank of another node."""
        record, ranks = item.record, self.source.ranks
        if record is None or ranks is None:
            return item
        named = [part.rank for part in (record.begin, record.lines) if part is not None and part.rank >= 0]
        other = next((rank for rank in named if rank not in ranks), None)
        if other is None:
            return item
        problem = f"rank {other} is not of this node, which has {ranks.start} to {ranks.stop - 1}"
        return replace(item, record=None, problem=problem)

    def _save_producer(self, row: Producer) -> None:
        if row._state.adding:
            row.save()
            self.known.producers[row.producer] = row
            return
        at = bulk.time_value(row.last_record_at)
        values = (row.role, row.rank, row.watermark, row.end_sequence, row.has_gap, row.num_dead_letters, at)
        bulk.update(Producer, PRODUCER, [(*values, row.pk)])

    def _note(self, row: Producer, item: Incoming) -> None:
        if item.record is None:
            row.num_dead_letters += 1
            self._bury(item, item.problem)
            return
        if item.record.begin is not None:
            row.role, row.rank = item.record.begin.role, item.record.begin.rank
        if item.record.is_end:
            row.end_sequence = item.sequence
        self.troubles.update(item.record.lost)

    def _store(self, fresh: list[Incoming]) -> tuple[list[PointMatrix], list[store.StreamLines]]:
        if not fresh:
            return [], []
        known = [(item, item.record) for item in fresh if item.record is not None]
        matrices = merged((item.producer, item.sequence, rows) for item, record in known for rows in record.points)
        lines = self._within_log_limit(
            [record.lines for _, record in known if record.lines is not None and record.lines.lines]
        )
        telemetry = self.telemetry
        telemetry.cursor += 1
        telemetry.last_record_at = self.now
        self._watch_clocks(known)
        cursor = telemetry.cursor
        stored = store.write_matrices(self.known.series, attempt=self.fence, cursor=cursor, matrices=matrices)
        keyring = self.keyring or NO_KEYS
        store.write_lines(self.run_id, attempt=self.fence, cursor=cursor, lines=lines, keyring=keyring)
        num_points = sum(matrix.num_points for matrix in stored)
        self.troubles[troubles.SERIES_LIMIT] += sum(matrix.num_points for matrix in matrices) - num_points
        telemetry.num_points += num_points
        telemetry.num_lines += sum(len(part.lines) for part in lines)
        self._pace(stored)
        self._take_notes(known)
        self._take_facts(known)
        self._take_media(known)
        self._take_descriptions(known)
        return stored, lines

    def _within_log_limit(self, lines: list[store.StreamLines]) -> list[store.StreamLines]:
        """Return what still fits into the run's share of logs, and count the lines that do not."""
        limit = settings.LOG_LIMIT_BYTES
        if not lines or not limit:
            return lines
        if self.known.log_bytes is None:
            self.known.log_bytes = num_stored_bytes(self.run_id)
        kept = []
        for part in lines:
            size = sum(len(text) for _, text in part.lines)
            if self.known.log_bytes + size > limit:
                self.troubles[troubles.LOG_LIMIT] += len(part.lines)
                continue
            self.known.log_bytes += size
            kept.append(part)
        return kept

    def _take_notes(self, fresh: Iterable[tuple[Incoming, Record]]) -> None:
        reported = [(item.producer, record.checkpoint) for item, record in fresh if record.checkpoint is not None]
        if not reported:
            return
        newest = Run.objects.filter(pk=self.run_id).values_list("fence", flat=True).first() or 0
        notes = [(self.known.producers[producer], note) for producer, note in reported]
        self.troubles[troubles.CHECKPOINT_NOTES] += checkpoints.write_reports(
            self.run_id, attempt=self.fence, newest=newest, now=self.now.timestamp(), reports=notes
        )

    def _take_facts(self, fresh: Iterable[tuple[Incoming, Record]]) -> None:
        reported = [(item.producer, record.facts) for item, record in fresh if record.facts is not None]
        if reported:
            items = [(self.known.producers[producer].rank, one) for producer, one in reported]
            self.troubles[troubles.FACTS_LIMIT] += progress.write_facts(self.run_id, attempt=self.fence, items=items)

    def _take_descriptions(self, fresh: Iterable[tuple[Incoming, Record]]) -> None:
        newest = {item.producer: record.description for item, record in fresh if record.description is not None}
        run = Run.objects.filter(pk=self.run_id).first() if newest else None
        if run is not None:
            self.troubles[troubles.CONFIG_LIMIT] += sum(
                bool(run.describe(said, is_script=True)) for said in newest.values()
            )

    def _take_media(self, fresh: Iterable[tuple[Incoming, Record]]) -> None:
        logged = [(item.producer, record.media) for item, record in fresh if record.media is not None]
        if not logged:
            return
        if self.known.media is None:
            self.known.media = media.totals_of(self.run_id)
        self.num_media, num_lost = media.write_media(
            self.run_id,
            attempt=self.fence,
            cursor=self.telemetry.cursor,
            items=[(self.known.producers[producer].rank, one) for producer, one in logged],
            totals=self.known.media,
            at_most=media.Totals(troubles.MAX_MEDIA_PER_RUN, troubles.MAX_MEDIA_BYTES),
            keyring=self.keyring or NO_KEYS,
        )
        self.troubles[troubles.MEDIA_LIMIT] += num_lost
        hides = (self.keyring or NO_KEYS).encrypts
        raise_alerts(self.run_id, fence=self.fence, items=[one for _, one in logged], now=self.now, hides=hides)

    def _pace(self, matrices: list[PointMatrix]) -> None:
        telemetry = self.telemetry
        pace = Pace(telemetry.attempt, telemetry.step, telemetry.step_at, telemetry.intervals_s)
        pace = advanced(pace, self.fence, ((matrix.head.names, matrix.steps, matrix.times) for matrix in matrices))
        telemetry.attempt, telemetry.step, telemetry.step_at = pace.attempt, pace.step, pace.step_at
        telemetry.intervals_s, telemetry.median_step_s = pace.intervals_s, pace.median_step_s

    def _watch_clocks(self, fresh: Iterable[tuple[Incoming, Record]]) -> None:
        """Count the jumps of producers' clocks: back, or far ahead of ours. What was logged elsewhere is only old."""
        ahead = self.now.timestamp() + troubles.CLOCK_JUMP_S
        clocks = self.known.clocks
        for item, record in fresh:
            if record.points and (times := record.points[0].times):
                spoken = NUMBER.unpack_from(times)[0], NUMBER.unpack_from(times, len(times) - NUMBER.size)[0]
                before = clocks.get(item.producer, float("-inf"))
                count, clocks[item.producer] = troubles.jumps(spoken, before, ahead)
                self.troubles[troubles.CLOCK_JUMP] += count

    def _save(self, *, is_new: bool) -> None:
        telemetry = self.telemetry
        if not is_new and not any(self.troubles.values()):
            return
        telemetry.troubles = troubles.added(telemetry.troubles, self.troubles)
        at, minute = bulk.time_value(telemetry.last_record_at), int(self.now.timestamp() // 60)
        values = (
            telemetry.cursor, telemetry.step, telemetry.step_at, telemetry.median_step_s, telemetry.attempt,
            json.dumps(telemetry.intervals_s), at, minute, telemetry.num_points, telemetry.num_lines,
            json.dumps(telemetry.troubles),
        )  # fmt: skip
        bulk.update(Telemetry, TELEMETRY, [(*values, self.run_id)])

    def _bury_unknown(self, items: list[Incoming], why: str) -> None:
        """Keep frames that move no watermark. They come again with each resend, and are kept and counted once."""
        for item in items:
            self._bury(item, why + item.problem, may_come_again=True)

    def _bury(self, item: Incoming, reason: str, *, may_come_again: bool = False) -> None:
        is_new = self.letters.write(
            item.raw if self.keyring is not None and not self.keyring.encrypts else b"", reason, run_id=self.run_id,
            node_id=self.source.node_id, producer=item.producer, sequence=item.sequence, may_come_again=may_come_again,
        )  # fmt: skip
        if is_new or not may_come_again:
            self.troubles[troubles.BAD_FRAME if item.is_damaged else troubles.REFUSED_POINTS] += 1
