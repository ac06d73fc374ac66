"""Contours, the Pareto front and the encoding of parameters, against what a hand works out."""

from __future__ import annotations

import math

import pytest

from runs.sweeps.analysis.best import SpaceField, pareto_front, with_seen
from runs.sweeps.analysis.contour import CELLS, contour
from runs.sweeps.analysis.importance import share_of, value_at
from tests.sweep_trials import trial

RATE = SpaceField("lr", 1e-4, 1.0, is_log=True)
WIDTH = SpaceField("width", 0, 10)
NAME = SpaceField("name", choices=("a", "b"))


def test_shares_of_a_range_of_a_logarithm_and_of_choices() -> None:
    assert share_of(RATE, 1e-2) == pytest.approx(0.5) and share_of(WIDTH, 2.5) == 0.25
    assert (share_of(NAME, "a"), share_of(NAME, "b")) == (0.25, 0.75) and share_of(NAME, None) == share_of(WIDTH, None)
    assert value_at(RATE, 0.25) == pytest.approx(1e-3) and value_at(WIDTH, 0.3) == pytest.approx(3)


def test_what_a_trial_had_outside_of_the_space_widens_it() -> None:
    trials = [trial(0, 1.0, {"width": 12, "name": "c"}), trial(1, 1.0, {"width": 3})]
    assert with_seen(WIDTH, trials)[1:3] == (0, 12) and with_seen(NAME, trials).choices == ("a", "b", "c")


def test_between_two_trials_lies_their_mean_and_far_from_all_nothing() -> None:
    trials = [trial(0, 1.0, {"width": 4.5, "lr": 1e-2}), trial(1, 3.0, {"width": 5.5, "lr": 1e-2})]
    found = contour(trials, WIDTH, RATE)
    assert len(found.cells) == len(found.cells[0]) == CELLS and found.x[0] == 0 and found.x[-1] == pytest.approx(10)
    middle = found.cells[CELLS // 2]
    left, right = middle[CELLS // 2 - 1], middle[CELLS // 2]
    assert left is not None and right is not None and left < 2 < right and left + right == pytest.approx(4)
    assert found.cells[0] == [None] * CELLS


def test_another_choice_says_nothing_about_this_one() -> None:
    found = contour([trial(0, 1.0, {"width": 5, "name": "a"}), trial(1, 9.0, {"width": 5, "name": "b"})], WIDTH, NAME)
    for row, value in zip(found.cells, (1.0, 9.0), strict=True):
        known = [one for one in row if one is not None]
        assert known and all(one == pytest.approx(value) for one in known)


def test_no_trial_no_surface() -> None:
    assert contour([], WIDTH, NAME).cells == [[None] * CELLS] * 2


def test_the_front_is_what_nothing_beats_in_everything() -> None:
    values = [(1, 5), (2, 3), (3, 4), (4, 1), (1, 5), (5, 5), (math.nan, 0)]
    trials = [trial(number, values=pair, state="COMPLETE") for number, pair in enumerate(values)]
    assert pareto_front(trials, ["minimize", "minimize"]) == [0, 4, 1, 3]
    assert pareto_front(trials, ["maximize", "maximize"]) == [5]
    assert pareto_front([trial(0, values=(1, 2), state="FAILED")], ["minimize", "minimize"]) == []
