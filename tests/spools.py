"""What ranks and supervisors would send: spools of real frames, and sealed entries of the stream."""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Iterable
from typing import Any

from runs.ingest.commit import Source, commit
from runs.ingest.validation.records import incoming
from runs.models import Attempt, Node, Run
from runs.serving.transport import redis
from tests.frames import encode
from trainyard.contract.seals import frames_scope, mac, stream_key

Point = tuple[int, float, float]  # step, time, value


class Spool:
    """One producer's frames, numbered as they are made. Each method returns the frame and keeps it."""

    def __init__(self, producer: str = "") -> None:
        self.producer = producer or uuid.uuid4().hex
        self.frames: list[bytes] = []

    def add(self, kind: str, **payload: Any) -> bytes:
        return self.put(kind, payload)

    def put(self, kind: str, payload: dict[str, Any]) -> bytes:
        frame = encode({"p": self.producer, "q": len(self.frames) + 1, "t": kind, **payload})
        self.frames.append(frame)
        return frame

    def begin(self, rank: int = 0, role: str = "rank") -> bytes:
        return self.add("begin", rank=rank, node="node-a", pid=1, at=0.0, role=role)

    def points(self, points: Iterable[Point], name: str = "train/loss", **labels: str) -> bytes:
        return self.add("points", g=[packed(name, labels, points)])

    def logs(self, lines: list[tuple[float, str]], rank: int = 0, stream: str = "stdout") -> bytes:
        return self.add("logs", rank=rank, stream=stream, lines=lines)

    def end(self, reason: str = "finish") -> bytes:
        return self.add("end", at=0.0, reason=reason)

    @property
    def bytes(self) -> bytes:
        return b"".join(self.frames)


def packed(name: str, labels: dict[str, str], points: Iterable[Point]) -> list[Any]:
    rows = list(points)
    columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    kinds = ("q", "d", "d")
    return [
        labels,
        [name],
        *(struct.pack(f"<{len(rows)}{kind}", *column) for kind, column in zip(kinds, columns, strict=True)),
    ]


def some_points(first: int, count: int) -> list[Point]:
    """Steps from ``first`` on, a second apart; the value is the step."""
    return [(step, 1000.0 + step, float(step)) for step in range(first, first + count)]


def store(run: Run, frames: bytes) -> None:
    """Commit frames of the run's first attempt, as the ingest does once the stream brought them."""
    commit(run.pk, fence=1, source=Source("node1", "node-a"), batch=incoming(frames))


def send(attempt: Attempt, node: Node, frames: bytes, **changes: Any) -> None:
    """Put frames into the stream as the supervisor of that attempt on that node does; ``changes`` forge fields."""
    fields = {"n": node.pk, "r": attempt.run_id, "a": attempt.pk, "f": attempt.fence, "d": frames, **changes}
    scope = frames_scope(str(fields["n"]), str(fields["r"]), int(fields["f"]))
    redis().xadd(stream_key(attempt.run.shard), {"m": mac(node.key, scope, frames), **fields})


def send_health(node: Node, document: dict[str, Any] | bytes) -> None:
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    fields = {"n": node.pk, "r": "", "a": "", "f": 0, "d": data, "m": mac(node.key, frames_scope(node.pk, "", 0), data)}
    redis().xadd(stream_key(0), fields)
