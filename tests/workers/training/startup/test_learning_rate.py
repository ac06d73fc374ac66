"""The learning-rate range test: where the loss falls fastest, and a training as if that rate had been asked for."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.workers.training.checkpoints.yard import Yard, after
from tests.workers.training.ranks import series, tiny_spec, train_on
from workers.training.startup.learning_rate import HIGHEST, LOWEST, Tried, has_diverged, rates, smoothed, suggested


def valley(middle: float = 1e-3) -> list[Tried]:
    """Losses that fall around ``middle`` and rise far beyond it."""
    found = []
    for rate in rates():
        place = math.log10(rate / middle)
        found.append(
            Tried(rate, 3.0 - 2.0 / (1.0 + math.exp(-6.0 * place)) + (math.exp(place - 1.5) if place > 1 else 0))
        )
    return found


def test_rates_grow_from_the_lowest_to_the_highest() -> None:
    found = rates()
    assert (found[0], found[-1]) == (LOWEST, pytest.approx(HIGHEST))
    assert found[1] / found[0] == pytest.approx(found[-1] / found[-2])


def test_the_rate_is_where_the_loss_falls_fastest() -> None:
    for middle in (1e-4, 1e-3, 1e-2):
        rate = suggested(valley(middle))
        assert rate is not None and middle / 3 < rate < middle * 4  # the average lags behind by a few steps


def test_a_loss_that_never_falls_says_nothing() -> None:
    assert suggested([Tried(rate, 1.0 + rate) for rate in rates()]) is None
    assert suggested([Tried(rate, 1.0) for rate in rates()[:5]]) is None
    assert suggested([Tried(rate, float("nan")) for rate in rates()]) is None


def test_it_ends_where_the_loss_is_many_times_its_best() -> None:
    tried = [Tried(0.1, 1.0)] * 5
    assert not has_diverged(tried)
    assert has_diverged([*tried, *[Tried(0.2, 100.0)] * 2])
    assert has_diverged([*tried, Tried(0.2, float("inf"))])
    assert smoothed([1.0, 1.0, 1.0]) == pytest.approx([1.0, 1.0, 1.0])


def test_two_ranks_find_a_rate_and_train_as_if_it_had_been_asked_for_also_after_a_restart(tmp_path: Path) -> None:
    yard = Yard(tmp_path / "found")
    asked = {"steps": 8, "checkpoint": {"every_steps": 4}, "find_learning_rate": "range-test"}
    pair = yard.train(2, **asked)[0]
    rate = series(pair, "find/learning_rate")[0]
    assert 1e-5 < rate < 1.0
    assert len(series(pair, "find/loss")) > 20
    direct = train_on(2, tiny_spec(world=2, steps=8, learning_rate=rate))[0]
    for name in ("train/loss", "train/learning_rate", "val/loss"):
        assert series(pair, name) == series(direct, name), name
    resumed = yard.train(2, restore=yard.offers()[1:], **asked)[0]
    assert not series(resumed, "find/loss")
    assert after(resumed, "train/loss", 0) == after(pair, "train/loss", 4)
