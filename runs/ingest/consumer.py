"""Reads one shard of the stream, commits what came for all runs at once, acknowledges, pushes.

Nothing here is the only copy of anything: an entry that is not acknowledged is read again after a restart, and what
the stream loses is sent again by the supervisors (they see another epoch, a gap, or a watermark that stands still).
"""

import secrets
import threading
import time

import structlog
from django.conf import settings
from django.db import connections, transaction
from django.utils import timezone
from redis.exceptions import RedisError

from runs.ingest import troubles as letters
from runs.ingest.commit import Committed
from runs.ingest.lock import ShardLock
from runs.ingest.push import Push
from runs.ingest.reader import Reader, StreamEntry
from runs.ingest.rounds import LOG_EVERY, Rounds
from runs.ingest.troubles import UNABLE, Letters
from runs.models import Run
from runs.privacy.retention import forget_old
from runs.records.metrics.erase import delete_run_data, sweep
from runs.records.metrics.models import NodeSample, Telemetry
from runs.records.points.compaction.compactor import Compactor
from runs.rights.audit.chain import remove_old
from runs.serving.transport import redis
from trainyard.contract.seals import CHANGED_CHANNEL, EPOCH_KEY

KEEP_SAMPLES_S = 24 * 3600.0
EVERY_S = 3600.0
SLICE_S = 0.01  # a step may take 20 ms more, and what comes meanwhile waits for it
log = structlog.get_logger(__name__)

BLOCK_S = 1.0
LOOK_EVERY_S = 1.0  # at the epoch key and the lock
BACKOFF_S = (0.1, 5.0)


class Consumer:
    """One shard's ingest. step() does one round and says whether there was anything to do; it raises only what is a
    bug: an unreachable database or Valkey costs a wait that grows to seconds."""

    def __init__(self, shard: int, *, block_s: float = BLOCK_S) -> None:
        self.shard = shard
        self.stopping = threading.Event()
        self._block_s = block_s
        self._lock = ShardLock(shard)
        self._reader = Reader(shard)
        self._rounds = Rounds()
        self._push = Push()
        self._house = Housekeeping(shard, self._rounds.letters)
        self._looked_at = float("-inf")
        self._backoff_s = BACKOFF_S[0]
        self._num_poisoned = 0

    def step(self) -> bool:
        try:
            did_something = self._round()
        except UNABLE as error:
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
        # With something to compact nobody waits for what may come: it is looked for between two slices.
        wait_s = 0.0 if self._house.is_at_it else self._push.wait_s(now, self._block_s)
        if entries := self._reader.read(wait_s):
            self._take(entries)
            self._house.in_between()
            return True
        self._house.idle()
        return False

    def _look(self, now: float) -> bool:
        """Make sure of what we stand on: the shard is ours, the epoch key is there. A Valkey that lost its data has no
        epoch; after a new one the supervisors send again."""
        was_ours = self._lock.is_held
        if not self._lock.hold():
            return False
        if not was_ours:
            self._reader.start_over()
            self._reader.make_group()
        redis().set(EPOCH_KEY, secrets.token_hex(8), nx=True)
        self._looked_at = now
        return True

    def _take(self, entries: list[StreamEntry]) -> None:
        """Commit what the entries hold, in one transaction: one sync of the disk, however many runs there are."""
        committed = self._store(entries)
        # Only after the commit: after a death before this line they come again, and are dropped as seen.
        self._reader.acknowledge([entry_id for entry_id, _ in entries])
        if self._reader.is_exhausted(entries):
            self._begin_stream_anew(entries[-1])
        for run_id in {change.run_id for change in committed if change.has_end}:
            redis().publish(CHANGED_CHANNEL, run_id)  # control may wait for these records alone before it ends the run
        for change in committed:
            self._push.add(change)
            self._house.record(change)
        self._push.flush(time.monotonic())

    def _store(self, entries: list[StreamEntry]) -> list[Committed]:
        """Store what the entries hold. One that fails in a way that nobody expected is found by storing them one by
        one, and becomes a dead letter: it would come again for ever, and nothing behind it would be read."""
        try:
            with transaction.atomic(using=settings.METRICS_DATABASE):
                return self._rounds.commit(self._rounds.sort(entries))
        except BaseException as error:
            self._rounds.forget()
            if not isinstance(error, Exception) or isinstance(error, UNABLE):
                raise
            poison = error
        if len(entries) > 1:
            return [change for entry in entries for change in self._store([entry])]
        if self._num_poisoned % LOG_EVERY == 0:
            log.error("ingest.poisoned", shard=self.shard, number=self._num_poisoned + 1, exc_info=poison)
        self._num_poisoned += 1
        with transaction.atomic(using=settings.METRICS_DATABASE):
            self._rounds.bury(entries[0], poison)
        return []

    def _begin_stream_anew(self, entry: StreamEntry) -> None:
        """Begin a new stream with a new epoch, so that what was sent meanwhile comes again."""
        node = entry[1].get(b"n", b"").decode(errors="replace")[:40]
        log.warning("ingest.stream_exhausted", shard=self.shard, node=node)
        self._reader.begin_anew()
        redis().set(EPOCH_KEY, secrets.token_hex(8))

    def _wait_after(self, error: Exception) -> None:
        log.warning("ingest.waits", shard=self.shard, error=str(error), seconds=self._backoff_s)
        self._reader.start_over()
        self._looked_at = float("-inf")
        self._lock.is_held = False  # what we knew may be old
        if not isinstance(error, RedisError):
            for connection in connections.all(initialized_only=True):
                if not connection.in_atomic_block:
                    connection.close()  # the next round begins with another
        self.stopping.wait(self._backoff_s)
        self._backoff_s = min(2 * self._backoff_s, BACKOFF_S[1])


# Other work of ingest: it compacts and deletes while it has nothing to read, and tidies up once an hour.


class Housekeeping:
    """Knows when there is something to do. Compaction is done in slices, so that what comes meanwhile waits for no
    more than one of them; under load it is not done at all, until too much has come together."""

    def __init__(self, shard: int, written: Letters) -> None:
        self._compactor = Compactor(lambda run_id: Run.objects.filter(pk=run_id, shard=shard).exists())
        self._shard = shard
        self._letters = written
        self.is_at_it = False  # whether there may be more to do after the last slice
        self._pruned_at = time.monotonic()

    def record(self, committed: Committed) -> None:
        if committed.cursor != committed.start:
            num_points = sum(piece.columns.size for piece in committed.pieces)
            self._compactor.record(committed.run_id, committed.cursor, num_points)

    def idle(self) -> None:
        """Compact and tidy up: there was nothing to read."""
        self.is_at_it = self._compactor.slice(SLICE_S) or sweep(SLICE_S)
        if time.monotonic() - self._pruned_at >= EVERY_S:
            self._pruned_at = time.monotonic()
            prune(time.time())
            forget_old(timezone.now(), self._shard)
            if self._shard == 0:
                remove_old(timezone.now())
            self._letters.pruned()

    def in_between(self) -> None:
        """Compact if behind: there was something to read, and there may be more."""
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
