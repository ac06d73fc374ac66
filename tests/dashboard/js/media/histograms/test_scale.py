"""Where numbers lie on a drawing of media."""

from __future__ import annotations

import pytest

from tests.dashboard.js.conftest import Ask

MODULE = "media/histograms/scale.js"


@pytest.mark.parametrize(
    ("low", "high", "most", "found"),
    [
        (0, 10, 5, [0, 2, 4, 6, 8, 10]),
        (-1, 1, 4, [-1, -0.5, 0, 0.5, 1]),
        (3, 1199, 3, [500, 1000]),
        (-0.46, 0.39, 4, [-0.25, 0, 0.25]),
        (7, 7, 4, [7]),
        (5, 1, 4, [5]),
    ],
)
def test_ticks_are_round_numbers_within(low: float, high: float, most: int, found: list[float], ask: Ask) -> None:
    assert ask(MODULE, "({ticks}, values) => ticks(...values)", [low, high, most]) == pytest.approx(found)


def test_a_step_reaches_half_way_to_its_neighbours(ask: Ask) -> None:
    assert ask(MODULE, "({stretches}) => stretches([0, 10, 20])") == [[-5, 5], [5, 15], [15, 25]]
    assert ask(MODULE, "({stretches}) => stretches([1, 10, 20])") == [[-3.5, 5.5], [5.5, 15], [15, 25]]
    assert ask(MODULE, "({stretches}) => stretches([7])") == [[6.5, 7.5]]
    assert ask(MODULE, "({stretches}) => stretches([])") == []


def test_steps_without_anything_stay_empty(ask: Ask) -> None:
    found = ask(MODULE, "({stretches}) => stretches([0, 10, 20, 500, 510])")
    assert found[2] == [15, 27.5]
    assert found[3] == [492.5, 505]


@pytest.mark.parametrize(("value", "last", "nearest"), [(-1, -1, 0), (0, 0, 0), (4, 0, 0), (6, 0, 1), (25, 2, 2)])
def test_the_place_of_a_value_is_found(value: float, last: int, nearest: int, ask: Ask) -> None:
    assert ask(MODULE, "({lastUpTo}, value) => lastUpTo([0, 10, 20], value)", value) == last
    assert ask(MODULE, "({nearest}, value) => nearest([0, 10, 20], value)", value) == nearest


def test_a_bin_counts_by_its_share_of_its_own_step(ask: Ask) -> None:
    found = ask(MODULE, "({shares}) => shares([[1, 3], [200, 200], [0, 0]])")
    assert found == {"shares": [[0.25, 0.75], [0.5, 0.5], [0, 0]], "most": 0.75}
