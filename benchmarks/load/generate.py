"""Points as training makes them, and the frames and stream entries that carry them, the same in every run."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.frames import encode
from trainyard.contract.seals import frames_scope, mac

START_S = 1_760_000_000.0
SEED = 7
BATCH_BYTES = 256 * 1024  # what a supervisor puts into one entry


class Points(NamedTuple):
    """Rows of a run: one step and time for each, and a value for each of its series."""

    steps: NDArray[np.int64]
    times: NDArray[np.float64]
    values: NDArray[np.float64]  # of shape (rows, series)


def noisy(num_rows: int, num_series: int, *, first_step: int = 1, seed: int = SEED, is_full: bool = False) -> Points:
    """Falling curves with noise, a row every tenth of a second with a jitter of a millisecond.

    The values are exact in 32 bits, as a model's numbers are; ``is_full`` uses all 52 bits of a double.
    """
    random = np.random.default_rng(seed)
    steps = np.arange(first_step, first_step + num_rows, dtype=np.int64)
    times = START_S + 0.1 * steps + random.normal(0, 0.001, num_rows)
    values = random.normal(0, 0.02, (num_rows, num_series))
    values += (100.0 / (steps + 100.0))[:, None] + np.arange(num_series)
    return Points(steps, times, values if is_full else values.astype(np.float32).astype(np.float64))


def series_names(num_series: int) -> list[str]:
    return [f"train/metric_{number}" for number in range(num_series)]


def frames(points: Points, rows_per_frame: int, *, producer: str = "") -> Iterator[bytes]:
    """Yield the frames of one producer: its begin, then ``rows_per_frame`` rows in each."""
    producer = producer or uuid.uuid4().hex
    names = series_names(points.values.shape[1])
    begin = {"rank": 0, "node": "bench", "pid": 1, "at": START_S, "role": "rank"}
    yield encode({"p": producer, "q": 1, "t": "begin", **begin})
    for number, start in enumerate(range(0, points.steps.size, rows_per_frame), 2):
        part = slice(start, start + rows_per_frame)
        columns = (points.steps[part].tobytes(), points.times[part].tobytes(), points.values[part].tobytes())
        yield encode({"p": producer, "q": number, "t": "points", "g": [[{}, names, *columns]]})


def batches(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Put frames together as a supervisor does that has many to send."""
    batch: list[bytes] = []
    size = 0
    for frame in parts:
        if batch and size + len(frame) > BATCH_BYTES:
            yield b"".join(batch)
            batch, size = [], 0
        batch.append(frame)
        size += len(frame)
    if batch:
        yield b"".join(batch)


class Sender(NamedTuple):
    """Who may send for which attempt: what a supervisor was told."""

    node: str
    key: str
    run: str
    attempt: str
    fence: int

    def entry(self, data: bytes) -> dict[str, bytes | str | int]:
        """Return the sealed entry of the stream that carries ``data``."""
        seal = mac(self.key, frames_scope(self.node, self.run, self.fence), data)
        return {"n": self.node, "r": self.run, "a": self.attempt, "f": self.fence, "d": data, "m": seal}
