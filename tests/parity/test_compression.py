"""Compressed gradients are other gradients: how far the losses go from DDP's, and how many bytes fewer that costs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.workers.training.buckets import MODEL, how_many_fewer, many_buckets, told, with_many_buckets
from tests.workers.training.parity import Measured, measured, nothing
from tests.workers.training.ranks import Point, series, tiny_spec, train_on

STEPS = 60
# The largest relative difference of a loss from DDP's on the same data, and of DDP's bytes how many times fewer.
BANDS = {"fp16": (1e-4, 2.0), "bf16": (1e-3, 2.0), "powersgd": (3e-2, 8.0)}


def trained(
    world: int, compression: str, setup: Callable[[], None] = many_buckets, **changes: Any
) -> list[list[Point]]:
    changes = {"steps": STEPS, "batch_size": 24, "accumulate": 2, "model": MODEL, **changes}
    return train_on(world, tiny_spec(world=world, parallel={"compression": compression}, **changes), setup=setup)


@functools.cache
def uncompressed(world: int) -> dict[int | None, float]:
    return series(trained(world, "none")[0], "train/loss")


def compare(world: int, name: str, setup: Callable[[], None] = nothing, note: str = "") -> tuple[float, float]:
    """Return how far losses are from DDP's, and how many times fewer bytes that took; and tell both."""
    expected = uncompressed(world)
    ranks = trained(world, name, with_many_buckets(setup))
    found = series(ranks[0], "train/loss")
    loss = float(np.max([abs(found[step] - expected[step]) / expected[step] for step in expected]))
    fewer = how_many_fewer(ranks)
    buckets = int(told(ranks, "test/buckets")[0])
    words = f"{fewer:.1f} times fewer bytes, {buckets} buckets, {STEPS} steps, from DDP"
    limit = None if note else BANDS[name][0]
    measured.append(Measured(f"data, compression {name}", world, loss, None, limit, note + words))
    return loss, fewer


@pytest.mark.parametrize("world", [2, 3, 4])
@pytest.mark.parametrize("name", BANDS)
def test_losses_stay_in_their_band_with_fewer_bytes(name: str, world: int) -> None:
    loss, fewer = compare(world, name)
    assert 0 < loss <= BANDS[name][0]
    assert fewer >= BANDS[name][1]


def leave_reduction_out() -> None:
    """Let what comes back never reach the gradients."""
    from workers.training.strategies.compression import Compression

    plain = Compression._send
    Compression._send = lambda self, tensor: plain(self, tensor.clone())  # type: ignore[method-assign]


@pytest.mark.parametrize("name", ["fp16", "bf16"])
def test_the_band_is_left_when_the_reduction_is_left_out(name: str) -> None:
    loss, _ = compare(2, name, leave_reduction_out, "red: leave reduction out; ")
    assert not loss <= BANDS[name][0]


@pytest.mark.parametrize("world", [2, 3, 4])
@pytest.mark.parametrize("name", BANDS)
def test_a_rerun_is_equal_bit_for_bit_and_ranks_hold_the_same_weights(name: str, world: int) -> None:
    first, second = (trained(world, name, steps=12) for _ in range(2))
    assert series(first[0], "train/loss") == series(second[0], "train/loss")
    assert len(set(told(first, "test/weights") + told(second, "test/weights"))) == 1


@pytest.mark.parametrize("name", BANDS)
def test_accumulation_changes_nothing_beyond_rounding(name: str) -> None:
    """One pass over the rows against four, of which the last is the one that is compressed."""
    one, four = (series(trained(2, name, steps=10, accumulate=times)[0], "train/loss") for times in (1, 4))
    assert float(np.max([abs(one[step] - four[step]) / one[step] for step in one])) <= BANDS[name][0] / 10
