"""Comparing runs that vary with the seed: what is found, and how often nothing is there."""

from __future__ import annotations

import random

import pytest

from trainyard.cli.comparing import compare, deviation, looks, power, threshold

BASELINE = [2.0, 2.1, 1.9, 2.05, 1.95, 2.0]


@pytest.mark.parametrize(("shift", "lower_is_better", "is_found"), [
    (0.5, True, True), (-0.5, True, False), (0.0, True, False), (0.5, False, False), (-0.5, False, True),
])  # fmt: skip
def test_a_worsening_is_found_in_its_direction(shift: float, lower_is_better: bool, is_found: bool) -> None:
    found = compare([value + shift for value in BASELINE], BASELINE, lower_is_better=lower_is_better)
    assert (found.p < 0.01) == is_found
    assert found.worse_by == pytest.approx(shift if lower_is_better else -shift)


def test_values_that_do_not_vary() -> None:
    assert compare([1.0] * 6, [1.0] * 6, lower_is_better=True) == (1.0, 0.0, None)
    worse = compare([1.1] * 6, [1.0] * 6, lower_is_better=True)
    assert worse.p < 0.01 and worse.in_deviations is None


def test_one_value_beside_one_is_sure_of_nothing() -> None:
    assert compare([9.0], [1.0], lower_is_better=True).p > 0.4
    with pytest.raises(ValueError, match="no values"):
        compare([], [1.0], lower_is_better=True)


def test_the_deviation_is_that_about_the_mean_of_each_group() -> None:
    assert deviation([1.0, 3.0], [101.0, 103.0]) == pytest.approx(2**0.5)


def test_looks_begin_with_six_and_share_the_false_alarms() -> None:
    assert [looks(count) for count in (1, 5, 9, 18, 20)] == [[1], [5], [6, 9], [6, 12, 18], [6, 13, 20]]
    assert [threshold(look, 3, 0.05) for look in (1, 2, 3)] == [0.001, 0.001, pytest.approx(0.048)]
    assert 0.90 < power(18, 18, 1.0, 0.05) < 0.92


def test_two_hundred_changes_of_known_effect() -> None:
    """Half of them are worse by one standard deviation; each is looked at as a pipeline does."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    draw = random.Random(seed)

    def is_red(effect: float) -> bool:
        baseline, new = ([draw.gauss(mean, 1) for _ in range(18)] for mean in (0.0, effect))
        at = looks(18)
        return any(
            compare(new[:count], baseline, lower_is_better=True).p < threshold(number, len(at), 0.05)
            for number, count in enumerate(at, 1)
        )

    found, false = sum(is_red(1.0) for _ in range(100)), sum(is_red(0.0) for _ in range(100))
    assert found >= 80 and false <= 14, (found, false)  # of 90 and at most 5: three standard deviations of such a count
