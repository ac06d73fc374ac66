"""Values that break a rule: every one that should, and none of plain noise."""

from __future__ import annotations

import math

import numpy as np

from runs.life.watching.clock import Broken, Point, SeriesWatch
from trainyard.spec.sections.watch import WatchRule

RULE = WatchRule(metric="train/loss", nan=True, spike=8.0, over=50)


def broken(values: list[float], rule: WatchRule = RULE) -> list[Broken]:
    return list(SeriesWatch(rule).take(Point(step, 0.0, value) for step, value in enumerate(values, 1)))


def falling(seed: int, number: int) -> list[float]:
    """A loss that falls, with noise that becomes smaller and a step now and then, as a schedule makes one."""
    random = np.random.default_rng(seed)
    steps = np.arange(number)
    curve = 0.5 + 5 * np.exp(-steps / random.uniform(20, 400)) + np.where(steps > number / 2, 0.0, 0.1)
    return (curve * random.lognormal(0, random.uniform(0.01, 0.15), number)).tolist()


def test_nan_and_infinities_break_a_rule_that_says_so() -> None:
    found = broken([1.0, math.nan, 1.0, math.inf, -math.inf])
    assert [(one.point.step, one.kind) for one in found] == [(2, "nan"), (4, "nan"), (5, "nan")]
    assert broken([1.0, math.nan], RULE.model_copy(update={"nan": False})) == []


def test_a_spike_is_found_with_what_was_usual_before() -> None:
    values = falling(1, 200)
    values[150] = 5 * values[150]
    (found,) = broken(values)
    assert (found.point.step, found.kind) == (151, "spike")
    assert found.usual is not None and abs(found.usual - values[149]) < 0.3 * values[149]
    assert found.deviations is not None and found.deviations > 8


def test_two_hundred_noisy_losses_break_no_rule() -> None:
    assert [seed for seed in range(200) if broken(falling(seed, 1_000))] == []


def test_the_first_values_are_no_spikes_and_a_fall_is_none() -> None:
    assert broken([1.0] * 10 + [100.0]) == []
    assert broken([5.0] * 60 + [0.1] * 60) == []


def test_a_loss_without_any_noise_has_a_least_deviation() -> None:
    assert broken([2.0] * 60 + [2.5]) == []
    assert len(broken([2.0] * 60 + [3.0])) == 1


def test_what_stays_up_becomes_usual() -> None:
    found = broken([1.0] * 60 + [9.0] * 300)
    assert found[0].point.step == 61 and len(found) <= RULE.over + 1


def test_points_are_taken_once_whatever_comes_again() -> None:
    watch = SeriesWatch(RULE)
    points = [Point(step, 0.0, math.nan) for step in (1, 2, 3)]
    assert len(list(watch.take(points[:2]))) == 2
    assert [one.point.step for one in watch.take(points)] == [3]
