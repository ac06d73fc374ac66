"""Large runs for pages to draw: sent by REST as `trainyard sync` sends what was logged elsewhere, frame by frame.

So points and lines come in by one of the product's own doors, whatever server that is, and as fast as it stores them:
a million points in under a second, a million lines in three or four on two cores. A script could not do the same: it
does not date what it prints, and the SDK would write everything to the disk first.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from tests.frames import encode

BODY_BYTES = 3_900_000  # a request has at most 4 MiB
FRAME_BYTES = 900_000
START_S = 1_790_000_000.0
NUMBERS = NDArray[np.float64]
Payload = dict[str, Any]


class Writer:
    """One process of a run that was logged elsewhere; numbers its frames."""

    def __init__(self, rank: int = 0) -> None:
        self.producer = uuid.uuid4().hex
        self.rank = rank
        self._sequence = 0

    def frame(self, kind: str, **payload: Any) -> bytes:
        self._sequence += 1
        return encode({"p": self.producer, "q": self._sequence, "t": kind, **payload})

    def begin(self) -> bytes:
        return self.frame("begin", rank=self.rank, node="", pid=1, at=START_S, role="script")

    def end(self) -> bytes:
        return self.frame("end", at=START_S, reason="finish")

    def points(
        self, names: Sequence[str], steps: NDArray[np.int64], times: NUMBERS, values: NUMBERS, **labels: str
    ) -> Iterator[bytes]:
        """Yield frames of ``values`` (steps x names)."""
        row_bytes = 16 + 8 * len(names)
        height = max(1, (FRAME_BYTES - sum(len(name) + 8 for name in names)) // row_bytes)
        for start in range(0, steps.size, height):
            part = slice(start, start + height)
            columns = (steps[part].astype("<i8"), times[part].astype("<f8"), values[part].astype("<f8"))
            yield self.frame("points", g=[[labels, list(names), *(column.tobytes() for column in columns)]])

    def lines(self, lines: Sequence[tuple[float, str]], stream: str = "stdout") -> Iterator[bytes]:
        """Yield frames of lines (Unix seconds, text) that are about FRAME_BYTES long."""
        longest = max((len(text.encode()) for _, text in lines), default=0) + 16
        height = max(1, FRAME_BYTES // longest)
        for start in range(0, len(lines), height):
            yield self.frame(
                "logs", rank=self.rank, stream=stream, lines=[list(one) for one in lines[start : start + height]]
            )


def plant(
    http: httpx.Client,
    name: str,
    frames: Iterable[bytes],
    writers: Sequence[Writer],
    *,
    is_over: bool = True,
    host: str = "",
    config: Mapping[str, object] | None = None,
) -> str:
    """Make a run of these frames and return its id. ``http`` has the address of /api/v1 and a token."""
    body = {
        "name": name,
        "host": host,
        "config": config or {},
        "processes": {
            writer.producer: {"rank": writer.rank, "began_at": START_S, "ended_at": START_S + 1 if is_over else None}
            for writer in writers
        },
    }
    local_id = uuid.uuid4().hex
    run_id = str(_ok(http.put(f"/runs/local/{local_id}", json=body))["run"]["id"])
    send(http, run_id, frames)
    _ok(http.put(f"/runs/local/{local_id}", json=body))  # what became of it is decided by what has arrived
    return run_id


def send(http: httpx.Client, run_id: str, frames: Iterable[bytes]) -> None:
    waiting: list[bytes] = []
    size = 0
    for frame in frames:
        if size + len(frame) > BODY_BYTES:
            _send(http, run_id, waiting)
            waiting, size = [], 0
        waiting.append(frame)
        size += len(frame)
    _send(http, run_id, waiting)


def plant_points(
    http: httpx.Client,
    name: str,
    num_steps: int,
    names: Sequence[str],
    *,
    spikes: Mapping[int, float] | None = None,
    seed: int = 1,
    labels: Mapping[str, str] | None = None,
) -> str:
    """Make a run of noisy falling curves, steps from 1, ten a second; ``spikes``: values of the first one by step."""
    writer = Writer()
    steps = np.arange(1, num_steps + 1, dtype=np.int64)
    noise = np.random.default_rng(seed).normal(0, 0.05, (num_steps, len(names)))
    values = (4 / steps**0.12)[:, None] + noise.astype(np.float32)
    for step, value in (spikes or {}).items():
        values[step - 1, 0] = value
    frames = writer.points(names, steps, START_S + steps / 10, values, **(labels or {}))
    return plant(http, name, [writer.begin(), *frames, writer.end()], [writer])


def plant_odd(http: httpx.Client, name: str, num_steps: int = 3_000) -> str:
    """Make a run of four ranks of which one is slow for a while, and whose loss is not always a number."""
    random = np.random.default_rng(5)
    writers = [Writer(rank) for rank in range(4)]
    steps = np.arange(1, num_steps + 1, dtype=np.int64)
    times = START_S + steps / 10
    frames = [writer.begin() for writer in writers]
    for rank, writer in enumerate(writers):
        seconds = 0.24 + 0.004 * rank + random.gamma(2, 0.004, num_steps)
        memory = 2**30 * (6.2 + 0.1 * rank) + random.normal(0, 2e6, num_steps)
        if rank == 2:
            seconds[num_steps // 2 : num_steps * 2 // 3] += 0.11
        named = ("rank/step_seconds", "rank/memory_bytes")
        frames += writer.points(named, steps, times, np.stack([seconds, memory], 1), rank=str(rank))
    losses = [scale / steps**0.2 + random.normal(0, noise, num_steps) for scale, noise in ((4, 0.08), (4.2, 0.02))]
    losses[0][[num_steps // 4, num_steps // 4 + 7, num_steps // 2]] = np.nan, np.nan, np.inf
    frames += writers[0].points(("train/loss", "val/loss"), steps, times, np.stack(losses, 1))
    return plant(http, name, [*frames, *(writer.end() for writer in writers)], writers)


def log_frames(writers: Sequence[Writer], num_lines: int, planted: Mapping[int, str]) -> Iterator[bytes]:
    """Yield the frames of ``num_lines`` lines that the ranks print in turn; ``planted`` are others by place."""
    for rank, writer in enumerate(writers):
        mine = range(rank, num_lines, len(writers))
        yield writer.begin()
        yield from writer.lines([(START_S + at / 1000, planted.get(at) or line(at, rank)) for at in mine])
        yield writer.end()


def line(at: int, rank: int) -> str:
    return (
        f"INFO step {at:>9,} rank {rank}: loss {4 / (at + 1) ** 0.1:.6f}, gradient norm {1 + at % 97 / 97:.4f}, 12 ms"
    )


def plant_lines(
    http: httpx.Client, name: str, num_lines: int, *, num_ranks: int = 8, planted: Mapping[int, str] | None = None
) -> str:
    """Make a run of lines a millisecond apart, place 0 the oldest; ``planted`` are other texts by place."""
    writers = [Writer(rank) for rank in range(num_ranks)]
    return plant(http, name, log_frames(writers, num_lines, planted or {}), writers)


def _send(http: httpx.Client, run_id: str, frames: list[bytes]) -> None:
    if frames:
        answer = http.post(
            f"/runs/{run_id}/frames", content=b"".join(frames), headers={"Content-Type": "application/octet-stream"},
            timeout=60,
        )  # fmt: skip
        _ok(answer)


def _ok(answer: httpx.Response) -> Any:
    if answer.status_code != 200:
        raise SystemExit(f"{answer.request.url}: {answer.status_code} {answer.text[:300]}")
    return answer.json()
