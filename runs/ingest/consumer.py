"""Reads one shard of the stream, hands each run's frames to commit(), acknowledges, pushes.

Nothing here is the only copy of anything: an entry that is not acknowledged is read again after a restart, and what
the stream loses is sent again by the supervisors (they see another epoch, a gap, or a watermark that stands still).
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterable
from typing import Any

import structlog
from django.db import DataError, IntegrityError, InterfaceError, OperationalError, connections
from redis.exceptions import RedisError, ResponseError

from runs.ingest import housekeeping
from runs.ingest.commit import Committed, Source, commit
from runs.ingest.lock import ShardLock
from runs.ingest.push import Push
from runs.ingest.records import Incoming, incoming
from runs.ingest.samples import store_samples
from runs.ingest.senders import Entry, RunGone, Senders, Unproven, parse
from runs.metrics.models import DeadLetter
from runs.transport import redis
from workers.contract import EPOCH_KEY, stream_key

log = structlog.get_logger(__name__)

GROUP = "ingest"
READ_ENTRIES = 64
BLOCK_S = 1.0
LOOK_EVERY_S = 1.0  # at the epoch key and the lock
BACKOFF_S = (0.1, 5.0)
HOUSEKEEPING_EVERY_S = 3600.0
UNPROVEN_BYTES = 64 * 1024  # of what nobody answers for, no more than this is kept

Group = tuple[str, int, Source]  # run, fence, who sent it


class Consumer:
    """One shard's ingest. step() does one round and says whether there was anything to do; it raises only what is a
    bug: an unreachable database or Valkey costs a wait that grows to seconds."""

    def __init__(self, shard: int, *, block_s: float = BLOCK_S) -> None:
        self.shard = shard
        self.stopping = threading.Event()
        self._stream = stream_key(shard)
        # A fixed name: whoever takes the shard over finds what its predecessor had read and not acknowledged.
        self._name = f"ingest-{shard}"
        self._block_s = block_s
        self._lock = ShardLock(shard)
        self._senders = Senders()
        self._push = Push()
        self._pending_from: bytes | None = b"0"  # None: everything that was pending is done, read what is new
        self._looked_at = float("-inf")
        self._backoff_s = BACKOFF_S[0]
        self._kept_house_at = time.monotonic()

    def step(self) -> bool:
        try:
            did_something = self._round()
        except (RedisError, OperationalError, InterfaceError) as error:
            self._wait_after(error)
            return False
        self._backoff_s = BACKOFF_S[0]
        return did_something

    def close(self) -> None:
        """Send what waits to be sent, and let go of the shard."""
        try:
            self._push.flush(time.monotonic(), everything=True)
            self._lock.release()
        except RedisError as error:
            log.warning("ingest.close", error=str(error))

    def _round(self) -> bool:
        now = time.monotonic()
        if now - self._looked_at >= LOOK_EVERY_S and not self._look(now):
            self.stopping.wait(self._block_s / 2)
            return False
        self._push.flush(now)
        entries = self._read(now)
        if not entries:
            self._keep_house(now)
            return False
        self._take(entries)
        return True

    def _look(self, now: float) -> bool:
        """Make sure of what we stand on: the shard is ours, the epoch key is there. A Valkey that lost its data has no
        epoch; a new one tells the supervisors to send again."""
        was_ours = self._lock.is_held
        if not self._lock.hold():
            return False
        if not was_ours:
            self._pending_from = b"0"
            self._make_group()
        redis().set(EPOCH_KEY, secrets.token_hex(8), nx=True)
        self._looked_at = now
        return True

    def _make_group(self) -> None:
        try:
            redis().xgroup_create(self._stream, GROUP, id="0", mkstream=True)
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise

    def _read(self, now: float) -> list[tuple[bytes, dict[bytes, bytes]]]:
        position = self._pending_from
        block_ms = max(1, int(1000 * self._push.wait_s(now, self._block_s))) if position is None else None
        answer: Any = redis().xreadgroup(
            GROUP, self._name, {self._stream: ">" if position is None else position}, READ_ENTRIES, block=block_ms
        )
        entries = _entries_of(answer)
        if position is not None:
            self._pending_from = entries[-1][0] if entries else None
        return entries

    def _take(self, entries: list[tuple[bytes, dict[bytes, bytes]]]) -> None:
        groups: dict[Group, list[Entry]] = {}
        health: list[Entry] = []
        done: list[bytes] = []
        for entry_id, fields in entries:
            try:
                entry = parse(entry_id, fields)
                source = self._senders.source(entry)
            except RunGone:
                done.append(entry_id)
            except Unproven as error:
                self._bury(fields, str(error))
                done.append(entry_id)
            else:
                if entry.is_health:
                    health.append(entry)
                else:
                    groups.setdefault((entry.run_id, entry.fence, source), []).append(entry)
        if health:
            store_samples((entry.node_id, entry.data) for entry in health)
            done += [entry.id for entry in health]
        committed = []
        for (run_id, fence, source), members in groups.items():
            batch = [frame for entry in members for frame in incoming(entry.data)]
            committed.append(self._commit(run_id, fence, source, batch))
            done += [entry.id for entry in members]
        self._acknowledge(done)
        for change in committed:
            self._push.add(change)
        self._push.flush(time.monotonic())

    def _commit(self, run_id: str, fence: int, source: Source, batch: list[Incoming]) -> Committed:
        """Commit the batch. Frames that the database itself cannot hold are found by committing them one by one."""
        try:
            return commit(run_id, fence=fence, source=source, batch=batch)
        except (OperationalError, InterfaceError):
            raise
        except (DataError, IntegrityError, ValueError, TypeError, OverflowError) as error:
            log.warning("ingest.batch_refused", run=run_id, frames=len(batch), error=str(error))
        changes = []
        for item in batch:
            try:
                changes.append(commit(run_id, fence=fence, source=source, batch=[item]))
            except (OperationalError, InterfaceError):
                raise
            except (DataError, IntegrityError, ValueError, TypeError, OverflowError) as error:
                log.error("ingest.poison", run=run_id, producer=item.producer, sequence=item.sequence, error=str(error))
                poison = Incoming(item.raw, item.producer, item.sequence, poison=f"it could not be stored: {error}")
                changes.append(commit(run_id, fence=fence, source=source, batch=[poison]))
        return _together(changes)

    def _acknowledge(self, entry_ids: list[bytes]) -> None:
        """Only now, after the commit: whoever is killed before this line makes the entries come again, and they are
        dropped as seen."""
        pipeline = redis().pipeline(transaction=False)
        pipeline.xack(self._stream, GROUP, *entry_ids)
        pipeline.xdel(self._stream, *entry_ids)
        pipeline.execute()

    def _bury(self, fields: dict[bytes, bytes], reason: str) -> None:
        log.warning("ingest.unproven", reason=reason)
        DeadLetter.objects.create(reason=reason.replace("\x00", ""), data=fields.get(b"d", b"")[:UNPROVEN_BYTES])

    def _keep_house(self, now: float) -> None:
        if now - self._kept_house_at >= HOUSEKEEPING_EVERY_S:
            self._kept_house_at = now
            housekeeping.prune(time.time())

    def _wait_after(self, error: RedisError | OperationalError | InterfaceError) -> None:
        log.warning("ingest.waits", shard=self.shard, error=str(error), seconds=self._backoff_s)
        self._pending_from = b"0"  # what was read and not acknowledged is read again
        self._looked_at = float("-inf")
        self._lock.forget()
        if not isinstance(error, RedisError):
            for connection in connections.all(initialized_only=True):
                connection.close_if_unusable_or_obsolete()
        self.stopping.wait(self._backoff_s)
        self._backoff_s = min(2 * self._backoff_s, BACKOFF_S[1])


def _entries_of(answer: Any) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """The entries of the one stream that was asked for. One that was deleted while it was pending has no fields."""
    found: Iterable[tuple[bytes, dict[bytes, bytes] | None]] = answer[0][1] if answer else []
    return [(entry_id, fields or {}) for entry_id, fields in found]


def _together(changes: list[Committed]) -> Committed:
    last = changes[-1]
    return Committed(
        run_id=last.run_id,
        attempt=last.attempt,
        start=changes[0].start,
        cursor=last.cursor,
        pieces=[piece for change in changes for piece in change.pieces],
        lines=[lines for change in changes for lines in change.lines],
        watermarks=last.watermarks,
    )
