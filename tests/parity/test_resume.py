"""What was saved under one way to spread a training goes on under any other, with any number of ranks."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.workers.training.checkpoints.yard import Yard, largest_difference, states
from tests.workers.training.parity import Measured, measured
from tests.workers.training.ranks import Point, series

STEPS = 15
LIMIT = 1e-5  # relative, of each loss, against one process; without the optimizer's state it is 3e-4
SAVED = 5  # so that 10 steps are compared
RUN = {
    "model": {"layers": 4, "width": 16, "heads": 4, "context": 16},
    "steps": STEPS,
    "batch_size": 24,
    "checkpoint": {"every_steps": SAVED},
}


class Way(NamedTuple):
    world: int
    parallel: dict[str, Any]


WAYS = {
    "alone": Way(1, {}),
    "data 2": Way(2, {}),
    "data 3": Way(3, {}),
    "shard 2": Way(2, {"shard": 2}),
    "tensor 2": Way(2, {"tensor": 2}),
    "pipeline 2": Way(2, {"pipeline": {"stages": 2}}),
    "context 2": Way(2, {"context": 2}),
    "shard 4": Way(4, {"shard": 4}),
}
PRODUCTS = {
    "interleaved 2": Way(2, {"pipeline": {"stages": 2, "schedule": "interleaved"}}),
    "zero-bubble 2": Way(2, {"pipeline": {"stages": 2, "schedule": "zero-bubble"}}),
    "data 2 x shard 2": Way(4, {"data": 2, "shard": 2}),
    "shard 2 x tensor 2": Way(4, {"shard": 2, "tensor": 2}),
    "data 2 x pipeline 2 x tensor 2": Way(8, {"data": 2, "tensor": 2, "pipeline": {"stages": 2}}),
}
ALL = {**WAYS, **PRODUCTS}
KEEP_ALL = {"every_steps": SAVED, "keep": 1000}
RING = ["data 2", "shard 2", "tensor 2", "pipeline 2", "context 2", "alone", "data 3"]

Saved = Callable[[str], Yard]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> list[Point]:
    return Yard(tmp_path_factory.mktemp("alone") / "checkpoints").train(1, **RUN)[0]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """Return the checkpoints of a run that was spread in that way; each is made once."""
    made: dict[str, Yard] = {}

    def of(name: str) -> Yard:
        if name not in made:
            made[name] = Yard(tmp_path_factory.mktemp("saved") / "checkpoints")
            points = made[name].train(ALL[name].world, parallel=ALL[name].parallel, **RUN)[0]
            assert states(points) == [("saved", 5), ("saved", 10), ("saved", 15)]
        return made[name]

    return of


def resume(yard: Yard, name: str, step: int, folder: Path) -> tuple[Yard, list[Point]]:
    """Go on behind ``step`` of ``yard`` in another way, in a copy of its folder."""
    shutil.copytree(yard.folder, folder)
    copy = Yard(folder)
    copy.fence = yard.fence
    offer = [offer for offer in copy.offers() if offer["step"] == step][:1]
    points = copy.train(ALL[name].world, parallel=ALL[name].parallel, restore=offer, **RUN)[0]
    assert states(points)[0] == ("restored", step)
    return copy, points


def check(points: list[Point], uninterrupted: list[Point], first: str, then: str, step: int) -> None:
    loss = largest_difference(points, uninterrupted, step=step)
    measured.append(Measured(f"{first} -> {then}", ALL[then].world, loss, None, LIMIT, "resumed"))
    assert list(series(points, "train/loss")) == list(range(step + 1, STEPS + 1))
    assert loss <= LIMIT
    assert largest_difference(points, uninterrupted, "val/loss", step=step) <= LIMIT


@pytest.mark.parametrize("then", WAYS)
@pytest.mark.parametrize("first", WAYS)
def test_every_way_goes_on_from_every_other(
    first: str, then: str, saved: Saved, uninterrupted: list[Point], tmp_path: Path
) -> None:
    _, points = resume(saved(first), then, SAVED, tmp_path / "checkpoints")
    check(points, uninterrupted, first, then, SAVED)


@pytest.mark.parametrize("product", PRODUCTS)
def test_products_go_on_as_one_process_and_the_other_way_round(
    product: str, saved: Saved, uninterrupted: list[Point], tmp_path: Path
) -> None:
    for first, then in ((product, "alone"), ("alone", product)):
        _, points = resume(saved(first), then, SAVED, tmp_path / first)
        check(points, uninterrupted, first, then, SAVED)


def test_one_run_goes_round_through_all_of_them(tmp_path: Path) -> None:
    """Each saves what it has restored from the one before: what one way loses is lost to all that follow."""
    run = {**RUN, "steps": SAVED * (len(RING) + 1)}
    uninterrupted = Yard(tmp_path / "alone").train(1, **run)[0]
    yard = Yard(tmp_path / "ring")
    for turn, name in enumerate(RING):
        newest = [offer for offer in yard.offers() if offer["step"] == SAVED * turn and offer["fence"] == turn]
        points = yard.train(
            ALL[name].world, parallel=ALL[name].parallel, restore=newest, **{**run, "checkpoint": KEEP_ALL}
        )[0]
        assert turn == 0 or states(points)[0] == ("restored", SAVED * turn)
        loss = largest_difference(points, uninterrupted, step=SAVED * turn)
        measured.append(Measured(f"ring: {name}", ALL[name].world, loss, None, LIMIT, "resumed"))
        assert loss <= LIMIT, name
