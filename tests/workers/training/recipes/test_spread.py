"""The cheapest pairs of a recipe and a way to spread it. All others are in tests/parity."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workers.training.parity import distance
from tests.workers.training.ranks import series, tiny_spec, train_on
from tests.workers.training.recipes.tasks import RESNET, TABLE, VIT

TOLERANCE = 1e-5  # relative; measured 8e-7
STAGES = {"pipeline": {"stages": 2}}
SMALL = {"steps": 3, "batch_size": 8, "gradient_clip": 0.25}


@pytest.mark.parametrize(
    ("task", "degrees"),
    [(RESNET, {"shard": 2}), (RESNET, STAGES), (VIT, {"tensor": 2}), (TABLE, {"tensor": 2})],
    ids=["a sharded resnet", "a resnet on two stages", "a vit cut by heads", "a table's mlp cut by columns"],
)
def test_two_ranks_learn_what_one_process_learns(task: dict[str, Any], degrees: dict[str, Any]) -> None:
    found = distance(2, degrees, task=task, **SMALL)
    assert max(found) < TOLERANCE, found


def test_stages_measure_what_one_process_measures() -> None:
    (alone,) = train_on(1, tiny_spec(task=RESNET, learning_rate=1e-2, **SMALL))
    pair = train_on(2, tiny_spec(task=RESNET, world=2, parallel=STAGES, learning_rate=1e-2, **SMALL))
    accuracy = series(alone, "val/accuracy")
    assert list(accuracy) == [0, 3] and all(0 <= value <= 1 for value in accuracy.values())
    assert series(pair[0], "val/accuracy") == pytest.approx(accuracy)


def test_samples_are_counted_as_samples_and_epochs_in_rows() -> None:
    (points,) = train_on(1, tiny_spec(task=TABLE, steps=2, batch_size=64, validate_every_steps=0))
    assert series(points, "train/tokens_per_second") == {} and len(series(points, "train/samples_per_second")) == 2
    assert series(points, "train/epoch") == pytest.approx({1: 64 / 512, 2: 128 / 512})
