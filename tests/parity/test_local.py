"""Ranks that agree less often than in every step: how far from the synchronous training, and how many bytes fewer."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests.workers.training.parity import Measured, measured, nothing
from tests.workers.training.ranks import Point, series, tiny_spec, train_on
from tests.workers.training.wire import tell_bytes_sent

STEPS = 60
EVERY = 5


class Band(NamedTuple):
    """How the kind is asked to train, and the most that its last validation may be over the synchronous one's."""

    fields: dict[str, Any]
    factor: float
    learning_rate: float = 0.01


BANDS = {
    "local-sgd": Band({"every_steps": EVERY}, 1.08),
    # The outer step makes 0.7 / (1 - 0.9) = 7 times as much of a change that lasts: the inner rate is the smaller.
    "diloco": Band({"every_steps": EVERY}, 1.15, learning_rate=0.002),
    "parameter-server": Band({"max_staleness": 4}, 1.05),
}


def trained(world: int, kind: str, setup: Callable[[], None]) -> list[list[Point]]:
    band = BANDS.get(kind, Band({}, 1.0))
    spec = tiny_spec(
        world=world,
        steps=STEPS,
        batch_size=24,
        learning_rate=band.learning_rate,
        validate_every_steps=0,
        parallel={"synchronization": {"kind": kind, **band.fields}},
    )
    return train_on(world, spec, setup=functools.partial(watched, setup))


def watched(setup: Callable[[], None]) -> None:
    tell_bytes_sent()
    setup()


@functools.cache
def synchronous(world: int) -> list[list[Point]]:
    return trained(world, "every-step", nothing)


def sent(ranks: list[list[Point]], name: str) -> float:
    return sum(value for points in ranks for value in series(points, name).values())


def compare(world: int, kind: str, setup: Callable[[], None] = nothing) -> tuple[float, float]:
    """Return the last validation over that of the synchronous training, and how many times fewer bytes were sent.

    Of DDP the bytes are those on the wire, for it counts none; of the others what they tell, which is held against
    the wire below.
    """
    expected, found = synchronous(world), trained(world, kind, setup)
    factor = series(found[0], "val/loss")[STEPS] / series(expected[0], "val/loss")[STEPS]
    fewer = sent(expected, "wire/sent_bytes") / sent(found, "rank/sent_bytes")
    words = f"val/loss {factor:.3f} times DDP's after {STEPS} steps, {fewer:.1f} times fewer bytes"
    red = "" if setup is nothing else f"red: {setup.__name__.replace('_', ' ')}; "
    limit = None if red else BANDS[kind].factor - 1
    measured.append(Measured(f"data, {kind}", world, max(0.0, factor - 1), None, limit, red + words))
    return factor, fewer


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("kind", BANDS)
def test_the_loss_stays_in_its_band(kind: str, world: int) -> None:
    factor, fewer = compare(world, kind)
    assert factor <= BANDS[kind].factor
    if kind == "parameter-server":  # a gradient up and weights down, where a ring of two sends one of each as well
        assert fewer > 0.8
    else:
        assert fewer > 0.8 * EVERY


@pytest.mark.parametrize("kind", BANDS)
def test_the_bytes_that_are_told_are_those_on_the_wire(kind: str) -> None:
    """Of rank 1: rank 0 of a parameter server ends when the others have left, and their connections with them."""
    points = trained(2, kind, nothing)[1]
    told, real = (sent([points], name) for name in ("rank/sent_bytes", "wire/sent_bytes"))
    assert 0 < told <= real <= 1.02 * told + 10_000  # the greeting of the ranks, headers, the validations' sums


def drop_the_outer_step() -> None:
    from workers.training.strategies.synchronization.diloco import DiLoCo
    from workers.training.strategies.synchronization.local_sgd import LocalSGD

    DiLoCo._keep, DiLoCo._mean_as_kept = LocalSGD._keep, LocalSGD._mean_as_kept  # type: ignore[method-assign]


def lose_what_workers_push() -> None:
    """Let the server hear of gradients, and take none but rank 0's."""
    from workers.training.strategies.synchronization.parameter_server import Server

    plain = Server.apply

    def apply(self, rank, step, gradient, loss):  # type: ignore[no-untyped-def]
        return plain(self, rank, step, gradient if rank == 0 else gradient.zero_(), loss)

    Server.apply = apply  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("kind", "setup"), [("diloco", drop_the_outer_step), ("parameter-server", lose_what_workers_push)]
)
def test_what_is_left_out_is_seen(kind: str, setup: Callable[[], None]) -> None:
    factor, _ = compare(4, kind, setup)
    assert factor > BANDS[kind].factor
