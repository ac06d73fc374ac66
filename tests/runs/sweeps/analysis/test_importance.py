"""fANOVA against shares worked out by hand, and both importances on functions whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from runs.sweeps.analysis.best import SpaceField, TrialPoint
from runs.sweeps.analysis.importance import Boxes, fanova_shares, importance
from tests.sweep_trials import trial

UNIT = np.ones(2)
QUARTERS = (
    np.array([[0.0, 0.0], [0.5, 0.0], [0.0, 0.5], [0.5, 0.5]]),
    np.array([[0.5, 0.5], [1.0, 0.5], [0.5, 1.0], [1.0, 1.0]]),
)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 1, 0, 1], [1.0, 0.0]),  # the first field alone
        ([0, 1, 2, 3], [0.2, 0.8]),  # a sum: variances 0.25 and 1
        ([0, 1, 1, 0], [0.0, 0.0]),  # only both together say anything
        ([1, 2, 2, 4], [9 / 19, 9 / 19]),  # mean 2.25, variance 19/16; a field's means are 1.5 and 3, variance 9/16
    ],
)
def test_shares_of_four_quarters_are_those_of_the_hand(values: list[float], expected: list[float]) -> None:
    found = fanova_shares(Boxes(*QUARTERS, np.array(values, dtype=float)), UNIT)
    assert found is not None and found.tolist() == pytest.approx(expected)


def test_unequal_boxes_count_by_their_volume() -> None:
    """Value 1 on a tenth of the first field, 0 elsewhere: variance 0.09, all of it the first field's."""
    boxes = Boxes(np.array([[0.0, 0.0], [0.1, 0.0]]), np.array([[0.1, 1.0], [1.0, 1.0]]), np.array([1.0, 0.0]))
    found = fanova_shares(boxes, UNIT)
    assert found is not None and found.tolist() == pytest.approx([1.0, 0.0])


def test_a_constant_tree_says_nothing() -> None:
    assert fanova_shares(Boxes(*QUARTERS, np.ones(4)), UNIT) is None


SPACE = [
    SpaceField("train.learning_rate", 1e-4, 1e-1, is_log=True),
    SpaceField("model.width", 16, 256),
    SpaceField("train.optimizer", choices=("adam", "sgd")),
]


def some(num: int) -> list[TrialPoint]:
    """Three quarters of the variance by the logarithm of the learning rate, a quarter by the width, none by the other:
    of a uniform field the variance is that of its factor's square."""
    chance = np.random.default_rng(1)
    made = []
    for number in range(num):
        rate, width = chance.random(2)
        parameters = {
            "train.learning_rate": 1e-4 * 1000**rate,
            "model.width": 16 + 240 * width,
            "train.optimizer": str(chance.choice(["adam", "sgd"])),
        }
        made.append(trial(number, float(3**0.5 * rate + width), parameters))
    return made


def test_a_sum_of_two_fields_is_found_by_both_ways() -> None:
    found = importance(some(120), SPACE)
    by_path = {one["path"]: one for one in found["fields"]}
    assert [one["path"] for one in found["fields"]][:2] == ["train.learning_rate", "model.width"]
    assert by_path["train.learning_rate"]["fanova"] == pytest.approx(0.75, abs=0.12)
    assert by_path["model.width"]["fanova"] == pytest.approx(0.25, abs=0.12)
    assert by_path["train.optimizer"]["fanova"] < 0.03 > by_path["train.optimizer"]["permutation"]
    assert by_path["train.learning_rate"]["permutation"] > 2 * by_path["model.width"]["permutation"] > 0
    assert all(0 <= one["fanova_error"] < 0.2 for one in found["fields"])
    assert found["sentence"] == "From the 120 trials that reported a value." and found == importance(some(120), SPACE)


def test_few_trials_are_warned_of_and_hardly_any_give_nothing() -> None:
    assert "Below 20, chance decides" in importance(some(8), SPACE)["sentence"]
    none = importance(some(3), SPACE)
    assert none["fields"] == [] and "at least 4 trials with a value; there are 3" in none["sentence"]


def test_equal_values_and_equal_parameters_are_said() -> None:
    same = [trial(one, 1.0, {"model.width": one + 16}) for one in range(6)]
    assert "reached the same value" in importance(same, SPACE)["sentence"]
    point = [trial(one, float(one), {"model.width": 16}) for one in range(6)]
    assert "had the same values" in importance(point, SPACE)["sentence"]
