"""From the spool files to the stream: batches of frames, sealed, sent again until the server has them.

The spool files are the truth, so only deletions are recorded on disk here. After any trouble a tail goes back to the
server's watermark and sends again; the server drops frames that it has stored already.
"""

import time
from collections import deque
from pathlib import Path
from typing import Any

import redis
import structlog

from trainyard.contract.limits import STREAM_LIMIT_BYTES, STREAM_LIMIT_ENTRIES
from trainyard.contract.locks import lock_bytes
from trainyard.contract.orders import Order
from trainyard.contract.seals import LOCKED, frames_scope, mac, stream_key
from trainyard.spooling.frames import Frame
from trainyard.spooling.ledger import Ledger
from trainyard.spooling.reader import PassedFile, SpoolReader
from trainyard.spooling.writer import Files, spool_files, spool_path
from workers.supervisor.contact import Contact
from workers.supervisor.records.log_tail import stream_offsets

log = structlog.get_logger(__name__)

BATCH_BYTES = 256 * 1024
MAX_BATCHES = 8  # that are sent in one go
ROOM_KNOWN_S = 0.5
STANDSTILL_S = 10.0
RESEND_PAUSE_S = 5.0


class ProducerTail:
    def __init__(self, folder: Path, producer: str, *, after: int) -> None:
        self.producer = producer
        self.reader = SpoolReader(folder, producer, after)
        self.sent = after
        self.rewound_at = 0.0
        self._waiting: deque[Frame] = deque()

    @property
    def is_done(self) -> bool:
        """Return whether its producer has ended and everything was sent."""
        return self.reader.has_ended and not self._waiting

    def take(self, room_bytes: int, numbers: list[int], *, is_over: bool) -> list[Frame]:
        """Return the next frames, at least one when there is one, else as many as fit."""
        try:
            if not self._waiting and not self.reader.has_ended:
                self._waiting.extend(self.reader.read(room_bytes, numbers, is_over=is_over))
        except OSError as error:
            log.warning("spool.unreadable", producer=self.producer, error=str(error))
        taken: list[Frame] = []
        while self._waiting and (not taken or len(self._waiting[0].raw) <= room_bytes):
            frame = self._waiting.popleft()
            if frame.kind == "damaged":
                log.error("spool.damaged", producer=self.producer, sequence=frame.sequence)
            room_bytes -= len(frame.raw)
            taken.append(frame)
        return taken

    def put_back(self, frames: list[Frame]) -> None:
        self._waiting.extendleft(reversed(frames))

    def rewind(self, watermark: int) -> None:
        self.sent = watermark
        self.rewound_at = time.monotonic()
        self.reader.go_back(watermark)
        self._waiting.clear()

    def passed_files(self, watermark: int) -> list[PassedFile]:
        """Return the files that nobody needs any more once the server has everything up to the watermark."""
        reader = self.reader
        files = [file for file in reader.passed if file.last <= watermark]
        if self.is_done and reader.number and self.sent == reader.sequence <= watermark:
            files.append(PassedFile(reader.number, reader.sequence, reader.has_logs))
        return files


ProducerFrames = tuple[ProducerTail, list[Frame]]


class Shipper:
    """Sends the spool of one attempt. One thread drives it by calling ``step`` and, every second, ``look_back``."""

    def __init__(self, client: redis.Redis, key: str, order: Order, spool: Path, contact: Contact) -> None:
        self._client, self._key, self._order = client, key, order
        self.folder = spool
        self._contact = contact
        self._tails: dict[str, ProducerTail] = {}
        self._ledger = Ledger(spool)
        self._turn = 0
        self._room, self._room_at = 0, float("-inf")
        self.is_over = False  # nobody writes into the spool any more
        self.is_blocked = False  # there is something to send, and no room in the stream
        self.has_more = False  # the last step did not send everything
        self._stream = stream_key(order.shard)
        self._epoch: str | None = None
        self._still_since = time.monotonic()
        self._seen: dict[str, int] = {}

    def step(self) -> bool:
        """Send what there is, up to MAX_BATCHES; False when there was nothing, or no room. Raises RedisError."""
        self.is_blocked = False
        if not (batches := self._collect()):
            return False
        is_sent = False
        try:
            if self._has_room(len(batches)):
                self._send([b"".join(frame.raw for _, frames in parts for frame in frames) for parts in batches])
                is_sent = True
        finally:  # a batch that may or may not have arrived is sent again
            for tail, frames in [part for parts in reversed(batches) for part in reversed(parts)]:
                if is_sent:
                    tail.sent = max(tail.sent, frames[-1].sequence)
                else:
                    tail.put_back(frames)
        self.is_blocked = not is_sent
        return is_sent

    def look_back(self) -> None:
        """Go back to the watermarks where what was sent cannot have arrived. Raises redis.RedisError."""
        epoch, self._epoch = self._epoch, self._contact.epoch
        watermarks = self._contact.watermarks
        lagging = [tail for tail in self._tails.values() if watermarks.get(tail.producer, 0) < tail.sent]
        now = time.monotonic()
        if watermarks != self._seen or not lagging:
            self._seen, self._still_since = dict(watermarks), now
        elif now - self._still_since > STANDSTILL_S and self._client.xlen(self._stream) == 0:
            log.warning("spool.resend", why="standstill", producers=len(lagging))
            self._rewind(lagging)
            self._still_since = now
            return
        if epoch is not None and epoch != self._epoch:
            log.warning("spool.resend", why="epoch", producers=len(lagging))
            self._rewind(lagging)
            return
        asked = [tail for tail in lagging if tail.producer in self._contact.resend]
        self._rewind([tail for tail in asked if now - tail.rewound_at > RESEND_PAUSE_S], is_asked=True)

    def has_passed(self, producers: dict[str, int]) -> bool:
        """Return whether the server has everything up to these sequences."""
        return all(self._contact.watermarks.get(name, 0) >= last for name, last in producers.items())

    def clean(self) -> None:
        """Delete what the server has: each file is noted in the ledger first."""
        for tail in list(self._tails.values()):
            for file in tail.passed_files(self._contact.watermarks.get(tail.producer, 0)):
                path = spool_path(self.folder, tail.producer, file.number)
                try:
                    offsets = stream_offsets(path) if file.has_logs else {}
                    self._ledger.delete(tail.producer, file.number, last=file.last, offsets=offsets)
                except OSError as error:  # a disk that is full, or fails: it is tried again every second
                    log.warning("spool.kept", path=str(path), error=str(error))
                    return
                tail.reader.forget(file.number)
                if file.number == tail.reader.number:
                    del self._tails[tail.producer]

    def _rewind(self, tails: list[ProducerTail], *, is_asked: bool = False) -> None:
        """Go back to the watermarks, or to where the files begin: what was deleted the server had, unless it asks."""
        for tail in tails:
            kept_from = 0 if is_asked else self._ledger.through(tail.producer)
            tail.rewind(max(self._contact.watermarks.get(tail.producer, 0), kept_from))

    def _collect(self) -> list[list[ProducerFrames]]:
        files = spool_files(self.folder)
        for producer in files.keys() - self._tails.keys():
            after = max(self._ledger.through(producer), self._contact.watermarks.get(producer, 0))
            self._tails[producer] = ProducerTail(self.folder, producer, after=after)
        tails = [tail for tail in self._tails.values() if not tail.is_done]
        self._turn += 1  # another one is first each time, so that none waits for ever
        tails = [tails[(place + self._turn) % len(tails)] for place in range(len(tails))]
        batches: list[list[ProducerFrames]] = []
        while len(batches) < MAX_BATCHES and (parts := self._batch(tails, files)):
            batches.append(parts)
        self.has_more = len(batches) == MAX_BATCHES
        return batches

    def _batch(self, tails: list[ProducerTail], files: Files) -> list[ProducerFrames]:
        room = BATCH_BYTES
        parts: list[ProducerFrames] = []
        for tail in tails:
            if room <= 0:
                break
            frames = tail.take(room, files.get(tail.producer, []), is_over=self.is_over)
            if frames and parts and len(frames[0].raw) > room:
                tail.put_back(frames)  # too large for what is left: it is the first of the next batch
                break
            if frames:
                parts.append((tail, frames))
                room -= sum(len(frame.raw) for frame in frames)
        return parts

    def _has_room(self, num_entries: int) -> bool:
        now = time.monotonic()
        if now - self._room_at > ROOM_KNOWN_S or self._room < num_entries:
            pipe: Any = self._client.pipeline(transaction=False)
            pipe.xlen(self._stream)
            pipe.memory_usage(self._stream, samples=8)
            length, num_bytes = pipe.execute(raise_on_error=False)
            if isinstance(length, Exception):
                raise length
            self._room_at = now
            # Some hosted servers refuse to report the bytes: then only the entries count.
            is_large = isinstance(num_bytes, int) and num_bytes >= STREAM_LIMIT_BYTES
            self._room = 0 if is_large else STREAM_LIMIT_ENTRIES - length
        return self._room > 0

    def _send(self, batches: list[bytes]) -> None:
        order = self._order
        scope = frames_scope(order.node, order.run, order.fence)
        sender = {"n": order.node, "r": order.run, "a": order.attempt, "f": order.fence}
        pipe: Any = self._client.pipeline(transaction=False)
        for data in batches:
            if order.encrypts:  # Valkey keeps entries in a file; what opens needs no seal
                proof = {"e": LOCKED, "d": lock_bytes(self._key, scope, data), "m": ""}
            else:
                proof = {"d": data, "m": mac(self._key, scope, data)}
            pipe.xadd(self._stream, sender | proof)
        pipe.execute()
        self._room -= len(batches)
