"""Differences from a baseline, and the test of noise against values of tables and of scipy."""

from __future__ import annotations

import math

import pytest

from dashboard.pages.compare.baseline import difference, is_more_better, noise_of, two_sided_p, welch

# Two-sided p of Student's t by the tables of Abramowitz and Stegun, 26.10.
TABLE = [(12.706, 1, 0.05), (63.657, 1, 0.01), (4.303, 2, 0.05), (2.776, 4, 0.05), (2.228, 10, 0.05), (3.169, 10, 0.01)]


@pytest.mark.parametrize(("t", "freedom", "p"), [*TABLE, (2.042, 30, 0.05), (2.617, 120, 0.01)])
def test_p_is_that_of_the_tables(t: float, freedom: float, p: float) -> None:
    assert two_sided_p(t, freedom) == pytest.approx(p, abs=2e-4)


def test_welch_is_that_of_scipy() -> None:
    one = [27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4]
    other = [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 30.5, 31.3]
    found, back = welch(one, other), welch(other, one)
    # scipy 1.17: ttest_ind(one, other, equal_var=False)
    assert found == pytest.approx((-2.949236837313109, 27.31161047222031, 0.006460408027460322), rel=1e-9)
    assert back is not None and found is not None and (back.t, back.p) == pytest.approx((-found.t, found.p))


def test_samples_that_do_not_vary_have_no_test_and_say_so() -> None:
    assert welch([1.0, 1.0], [2.0, 2.0]) is None
    assert noise_of([1.0, 1.0], [2.0, 2.0], "seeds")[0].startswith("no noise to speak of")
    assert welch([math.inf, 1.0], [2.0, 2.5]) is None


@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("val/loss", False), ("val/perplexity", False), ("val/accuracy", True), ("eval/reward", True),
        ("train/tokens_per_second", True), ("train/mfu", True), ("train/learning_rate", None), ("custom/thing", None),
    ],
)  # fmt: skip
def test_a_name_says_which_way_is_better_or_nothing(name: str, better: bool | None) -> None:
    assert is_more_better(name) is better


@pytest.mark.parametrize(
    ("name", "value", "base", "text", "tone"),
    [
        ("val/loss", 0.979, 1.0, "2.1 % lower than baseline", "better"),
        ("val/loss", 1.5, 1.0, "50 % higher than baseline", "worse"),
        ("val/accuracy", 0.9, 0.6, "50 % higher than baseline", "better"),
        ("train/learning_rate", 2.0, 1.0, "100 % higher than baseline", ""),
        ("val/loss", 1.0, 1.0, "The same as baseline", ""),
        ("val/loss", -1.0, -2.0, "50 % higher than baseline", "worse"),
        ("val/loss", 0.5, 0.0, "0.5 above baseline", "worse"),
        ("val/loss", 1.00000001, 1.0, "less than 0.01 % higher than baseline", "worse"),
        ("val/loss", None, 1.0, "No number to compare", ""),
        ("val/loss", 1.0, None, "The baseline has no number here", ""),
        ("val/loss", 1e300, 1e-300, "1e+300 above baseline", "worse"),
    ],
)
def test_a_difference_is_said_in_percent_with_the_direction(
    name: str, value: float | None, base: float | None, text: str, tone: str
) -> None:
    found = difference(is_more_better(name), value, base, [], [], "seeds")
    assert (found.text, found.tone) == (text, tone)


def test_what_is_within_noise_is_called_neither_better_nor_worse() -> None:
    found = difference(False, 0.979, 1.0, [0.9, 1.0, 1.037], [0.95, 1.0, 1.05], "seeds")
    assert found.sentence == "2.1 % lower than baseline; within noise (p = 0.70, 3 and 3 seeds)"
    assert found.tone == ""
    sure = difference(False, 0.5, 1.0, [0.5, 0.51, 0.49], [1.0, 1.01, 0.99], "seeds")
    assert sure.sentence == "50 % lower than baseline; beyond noise (p < 0.01, 3 and 3 seeds)"
    assert sure.tone == "better"


def test_with_one_value_on_a_side_noise_cannot_be_told() -> None:
    assert noise_of([1.0], [2.0], "seeds") == ("noise cannot be told from one seed each", False)
    assert noise_of([1.0], [2.0, 3.0], "runs") == ("noise cannot be told from 1 and 2 runs", False)
