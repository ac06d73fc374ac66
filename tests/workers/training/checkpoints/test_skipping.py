"""Batches that are left out: the same from every checkpoint, bit for bit, and kept in those that follow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.workers.training.checkpoints.yard import Yard
from tests.workers.training.ranks import series, tiny_spec, train_on

EVERY_5 = {"every_steps": 5, "keep": 20}
SKIPS = [{"fence": 1, "first": 8, "last": 9}]


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path / "checkpoints")


def losses(
    yard: Yard, world: int, steps: int, offers: list[dict[str, object]], skips: list[dict[str, int]]
) -> dict[int | None, float]:
    yard.fence += 1
    points = train_on(
        world,
        tiny_spec(world=world, steps=steps, checkpoint=EVERY_5),
        TRAINYARD_RUN=yard.run,
        TRAINYARD_FENCE=str(yard.fence),
        TRAINYARD_CHECKPOINTS=str(yard.folder),
        TRAINYARD_RESTORE=json.dumps(offers),
        TRAINYARD_SKIP=json.dumps(skips),
    )
    return series(points[0], "train/loss")


@pytest.mark.parametrize("world", [1, 2])
def test_a_skip_is_the_same_from_a_checkpoint_from_the_start_and_after_a_restart(world: int, yard: Yard) -> None:
    plain = losses(yard, world, 20, [], [])
    first = [one for one in yard.offers() if one["step"] == 5]
    skipped = losses(yard, world, 20, first, SKIPS)
    assert all(skipped[step] == plain[step] for step in (6, 7))
    assert all(skipped[step] != plain[step] for step in range(8, 21))
    again = losses(yard, world, 20, first, SKIPS)
    assert again == skipped
    anew = losses(yard, world, 20, [], SKIPS)
    assert {step: anew[step] for step in range(8, 21)} == {step: skipped[step] for step in range(8, 21)}
    behind = [one for one in yard.offers() if one["step"] == 10 and one["fence"] == 2]
    later = losses(yard, world, 20, behind, SKIPS)
    assert later == {step: skipped[step] for step in range(11, 21)}
    second = [*SKIPS, {"fence": 2, "first": 12, "last": 12}]
    assert losses(yard, world, 20, behind, second) != later
