from __future__ import annotations

from pathlib import Path

import pytest

from tests.workers.training.checkpoints.yard import Yard, after, largest_difference, states
from tests.workers.training.ranks import tiny_spec, train_on

EVERY_5 = {"every_steps": 5}


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path / "checkpoints")


@pytest.mark.parametrize("world", [1, 2])
def test_a_resumed_run_equals_the_uninterrupted_one_bit_for_bit(world: int, yard: Yard) -> None:
    spec = tiny_spec(world=world, steps=15, schedule="constant")
    whole = train_on(world, spec)[0]
    first = yard.train(world, steps=5, schedule="constant", checkpoint=EVERY_5)[0]
    second = yard.train(world, steps=15, schedule="constant", checkpoint=EVERY_5)[0]
    assert states(first) == [("saved", 5)]
    assert states(second)[:2] == [("restored", 5), ("saved", 10)]
    for name in ("train/loss", "train/gradient_norm", "val/loss"):
        assert after(second, name, 0) == after(whole, name, 5), name
