"""Reading one shard of the stream: what was pending first, then what is new, never much at once."""

from typing import Any

import structlog
from redis.exceptions import ResponseError

from runs.serving.transport import redis
from trainyard.contract.seals import stream_key

log = structlog.get_logger(__name__)

GROUP = "ingest"
# A sender of the stream may write large entries: so many at a time are read, and no more when they have
# ROUND_BYTES. Of real ones (a supervisor's have 256 KB) that is one call.
READ_ENTRIES = 16
ROUND_BYTES = 4 * 1024 * 1024
ROUND_ENTRIES = 1024

LAST_MS = 2**64 - 1  # of an entry's id

StreamEntry = tuple[bytes, dict[bytes, bytes]]  # id, fields


class Reader:
    def __init__(self, shard: int) -> None:
        self.stream = stream_key(shard)
        # A fixed name: whoever takes the shard over finds what its predecessor had read and not acknowledged.
        self._name = f"ingest-{shard}"
        self._pending_from: bytes | None = b"0"  # None: everything that was pending is done, read what is new

    def start_over(self) -> None:
        """Read again what was read and not acknowledged."""
        self._pending_from = b"0"

    def make_group(self) -> None:
        try:
            redis().xgroup_create(self.stream, GROUP, id="0", mkstream=True)
        except ResponseError as error:
            if str(error).startswith("WRONGTYPE"):  # nothing that anybody may write there is a stream that is lost
                log.warning("ingest.no_stream", stream=self.stream)
                redis().delete(self.stream)
                redis().xgroup_create(self.stream, GROUP, id="0", mkstream=True)
            elif "BUSYGROUP" not in str(error):
                raise

    def read(self, wait_s: float) -> list[StreamEntry]:
        """Return the next entries of one round; where there are none, wait so long for the first."""
        if self._pending_from is not None:
            entries = self._ask(self._pending_from, None)
            self._pending_from = entries[-1][0] if entries else None
            return entries
        entries = more = self._ask(b">", max(1, int(1000 * wait_s)))
        size = _size(more)
        while len(more) == READ_ENTRIES and size < ROUND_BYTES and len(entries) < ROUND_ENTRIES:
            more = self._ask(b">", None)
            size += _size(more)
            entries += more
        return entries

    def is_exhausted(self, entries: list[StreamEntry]) -> bool:
        """Return whether a sender, who may choose entry ids, used the last one: nothing can be appended any more."""
        return bool(entries) and int(entries[-1][0].partition(b"-")[0]) == LAST_MS

    def begin_anew(self) -> None:
        """Put a new stream in the place of this one, of which everything was acknowledged."""
        redis().delete(self.stream)
        self.make_group()

    def acknowledge(self, entry_ids: list[bytes]) -> None:
        pipeline = redis().pipeline(transaction=False)
        pipeline.xack(self.stream, GROUP, *entry_ids)
        pipeline.xdel(self.stream, *entry_ids)
        pipeline.execute()

    def _ask(self, after: bytes, block_ms: int | None) -> list[StreamEntry]:
        answer: Any = redis().xreadgroup(GROUP, self._name, {self.stream: after}, READ_ENTRIES, block=block_ms)
        # One that was deleted while it was pending has no fields.
        return [(entry_id, fields or {}) for entry_id, fields in answer[0][1]] if answer else []


def _size(entries: list[StreamEntry]) -> int:
    return sum(len(value) for _, fields in entries for value in fields.values())
