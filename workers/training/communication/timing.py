"""Times of exchanges, and the line through all sizes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import NamedTuple

import torch

from workers.training.communication.exchanges import Exchange

NUM_WARM_UPS = 1
GROWTH = 4
Points = list[tuple[int, float]]  # bytes and seconds


class LinearFit(NamedTuple):
    """Seconds of a message are ``latency_s`` and its bytes over ``bytes_per_s``."""

    latency_s: float
    bytes_per_s: float


def sizes_between(smallest: int, largest: int) -> list[int]:
    """Return the sizes that are tried, by factors of GROWTH, and ``largest`` at the end."""
    sizes = [smallest]
    while sizes[-1] * GROWTH < largest:
        sizes.append(sizes[-1] * GROWTH)
    return sizes if sizes[-1] == largest else [*sizes, largest]


def timed(exchange: Exchange, repeats: int, device: torch.device) -> list[float]:
    """Return the seconds that each of ``repeats`` exchanges took this rank. A collective.

    Nothing is said between the repeats: one exchange ends together, so the next begins together.
    """
    for _ in range(NUM_WARM_UPS):
        exchange()
    own = []
    for _ in range(repeats):
        _settle(device)
        started = time.perf_counter()
        exchange()
        _settle(device)
        own.append(time.perf_counter() - started)
    return own


def fit(points: Sequence[tuple[int, float]]) -> LinearFit:
    """Return the line through (bytes, seconds) whose relative errors are least, in the sense of squares.

    One point alone gives a bandwidth without a latency. Raises ValueError without any.
    """
    if not points:
        raise ValueError("there is no point to lay a line through")
    # Of (a + b x - t) / t: the normal equations of two unknowns.
    left, right = sum(1 / t for _, t in points), sum(x / t for x, t in points)
    ones, mixed, squares = (sum(x**power / t**2 for x, t in points) for power in (0, 1, 2))
    determinant = ones * squares - mixed**2
    if len(points) == 1 or determinant <= 1e-12 * ones * squares:
        return LinearFit(0.0, points[-1][0] / points[-1][1])
    latency, slope = (left * squares - right * mixed) / determinant, (right * ones - left * mixed) / determinant
    if latency < 0:  # the line through the origin is the best that is possible
        latency, slope = 0.0, right / squares
    if slope <= 0:  # what takes as long whatever its size: all of it is latency
        return LinearFit(statistics.median(t for _, t in points), max(x / t for x, t in points))
    return LinearFit(latency, 1 / slope)


def _settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
