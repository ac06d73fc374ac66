"""From the spool files to the stream: batches of frames, sealed, sent again until the server has them.

The files are the truth and the stream is only a way, so nothing here is remembered on disk: after any trouble a tail
goes back to the server's watermark and sends again; the server drops what it has seen.
"""

from __future__ import annotations

import os
import time
from collections import deque
from pathlib import Path

import redis
import structlog

from trainyard.records import HEADER, BadFrame, Frame
from trainyard.spool import read_frames
from workers.contract import STREAM_LIMIT_ENTRIES, Document, frames_scope, mac, stream_key
from workers.supervisor.contact import Contact

log = structlog.get_logger(__name__)

BATCH_BYTES = 256 * 1024
STANDSTILL_S = 10.0
RESEND_PAUSE_S = 5.0


class Tail:
    """One producer's file and how far it was sent."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.producer = path.stem
        self.sent = 0
        self.rewound_at = 0.0
        self._offset = 0
        self._waiting: deque[Frame] = deque()
        self._is_broken = False

    def take(self, room_bytes: int) -> list[Frame]:
        """Return the next frames, at least one when there is one, else as many as fit."""
        if not self._waiting:
            self._read()
        taken: list[Frame] = []
        while self._waiting and (not taken or len(self._waiting[0].raw) <= room_bytes):
            frame = self._waiting.popleft()
            room_bytes -= len(frame.raw)
            taken.append(frame)
        return taken

    def put_back(self, frames: list[Frame]) -> None:
        self._waiting.extendleft(reversed(frames))

    def rewind(self, watermark: int) -> None:
        self.sent = watermark
        self.rewound_at = time.monotonic()
        self._offset = 0
        self._waiting.clear()

    def _read(self) -> None:
        try:
            if self._is_broken or self.path.stat().st_size <= self._offset:
                return
            frames, self._offset = read_frames(self.path, self._offset)
        except OSError as error:
            log.warning("spool.unreadable", producer=self.producer, error=str(error))
            return
        except BadFrame as error:  # a disk that lies: what lies behind cannot be found any more
            log.error("spool.broken", producer=self.producer, offset=self._offset, error=str(error))
            self._is_broken = True
            return
        self._waiting.extend(frame for frame in frames if frame.sequence > self.sent)


class Shipper:
    """Sends the spool of one attempt. One thread drives it by calling ``step`` and, every second, ``look_back``."""

    def __init__(self, client: redis.Redis, key: str, order: Document, spool: Path, contact: Contact) -> None:
        self._client = client
        self._key = key
        self._order = order
        self._spool = spool
        self._contact = contact
        self._tails: dict[str, Tail] = {}
        self._stream = stream_key(order["shard"])
        self._epoch: str | None = None
        self._still_since = time.monotonic()
        self._seen: dict[str, int] = {}

    def step(self) -> bool:
        """Send one batch; False when there was nothing to send, or no room. Raises redis.RedisError."""
        batch = self._collect()
        if not batch:
            return False
        sent = False
        try:
            if self._client.xlen(self._stream) < STREAM_LIMIT_ENTRIES:
                self._send(b"".join(frame.raw for _, frames in batch for frame in frames))
                sent = True
        finally:  # a batch that may or may not have arrived is sent again
            for tail, frames in batch:
                if sent:
                    tail.sent = frames[-1].sequence
                else:
                    tail.put_back(frames)
        return sent

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
        self._rewind([tail for tail in asked if now - tail.rewound_at > RESEND_PAUSE_S])

    def has_passed(self, producers: dict[str, int]) -> bool:
        """Whether the server has everything up to these sequences."""
        return all(self._contact.watermarks.get(name, 0) >= last for name, last in producers.items())

    def _rewind(self, tails: list[Tail]) -> None:
        for tail in tails:
            tail.rewind(self._contact.watermarks.get(tail.producer, 0))

    def _collect(self) -> list[tuple[Tail, list[Frame]]]:
        for path in self._spool.glob("*.spool"):
            if path.stem not in self._tails:
                self._tails[path.stem] = Tail(path)
        room, batch = BATCH_BYTES, []
        for tail in self._tails.values():
            if room <= 0:
                break
            if frames := tail.take(room):
                batch.append((tail, frames))
                room -= sum(len(frame.raw) for frame in frames)
        return batch

    def _send(self, data: bytes) -> None:
        order = self._order
        scope = frames_scope(order["node"], order["run"], order["fence"])
        self._client.xadd(
            self._stream,
            {
                "n": order["node"],
                "r": order["run"],
                "a": order["attempt"],
                "f": order["fence"],
                "d": data,
                "m": mac(self._key, scope, data),
            },
        )


def last_sequences(spool: Path) -> dict[str, int]:
    """Return the last whole frame's sequence of every producer that has a file."""
    return {path.stem: last for path in spool.glob("*.spool") if (last := last_sequence(path)) > 0}


def last_sequence(path: Path) -> int:
    """Walk over the frames by their lengths and read only the last two: the last may be torn. 0 when there is none."""
    size = path.stat().st_size
    starts: deque[int] = deque(maxlen=2)
    with path.open("rb") as file:
        position = 0
        while position + HEADER.size <= size:
            starts.append(position)
            length, _ = HEADER.unpack(file.read(HEADER.size))
            position = file.seek(length, os.SEEK_CUR)
    for start in starts:
        try:
            frames, _ = read_frames(path, start)
        except BadFrame:
            continue
        if frames:
            return frames[-1].sequence
    return 0
