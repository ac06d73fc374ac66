"""How often something may happen, on a clock that the test turns."""

from __future__ import annotations

import random

import pytest

from runs.serving.rates import Throttle


def test_the_first_goes_at_once_the_second_may_be_early_and_the_third_waits() -> None:
    throttle = Throttle(0.1)
    for _ in range(2):
        assert throttle.wait_s(5.0) == 0
        throttle.record(5.0)
    assert throttle.wait_s(5.0) == pytest.approx(0.1)
    assert throttle.wait_s(5.11) == 0


def test_who_speaks_every_tenth_of_a_second_with_jitter_never_waits() -> None:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    draw = random.Random(seed)
    throttle = Throttle(0.1)
    for number in range(1_000):
        now = number * 0.1 + draw.uniform(0.0, 0.049)
        assert throttle.wait_s(now) == 0
        throttle.record(now)


def test_over_time_no_more_than_the_rate_goes() -> None:
    throttle = Throttle(0.1)
    went = 0
    for millisecond in range(10_000):
        if throttle.wait_s(millisecond / 1_000) == 0:
            throttle.record(millisecond / 1_000)
            went += 1
    assert 100 <= went <= 101


def test_after_what_costs_the_reader_more_it_takes_longer() -> None:
    throttle = Throttle(0.1)
    throttle.record(5.0, every_s=1.0)
    assert throttle.wait_s(5.0) == pytest.approx(1.0)
