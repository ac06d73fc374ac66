"""Where numbers lie on a drawing of media."""

from __future__ import annotations

from tests.dashboard.js.conftest import Ask

MODULE = "media/histograms/scale.js"


def test_a_step_reaches_half_way_to_its_neighbours(ask: Ask) -> None:
    assert ask(MODULE, "({stretches}) => stretches([0, 10, 20])") == [[-5, 5], [5, 15], [15, 25]]
    assert ask(MODULE, "({stretches}) => stretches([1, 10, 20])") == [[-3.5, 5.5], [5.5, 15], [15, 25]]
    assert ask(MODULE, "({stretches}) => stretches([7])") == [[6.5, 7.5]]
    assert ask(MODULE, "({stretches}) => stretches([])") == []


def test_steps_without_anything_stay_empty(ask: Ask) -> None:
    found = ask(MODULE, "({stretches}) => stretches([0, 10, 20, 500, 510])")
    assert found[2] == [15, 27.5]
    assert found[3] == [492.5, 505]


def test_a_bin_counts_by_its_share_of_its_own_step(ask: Ask) -> None:
    found = ask(MODULE, "({shares}) => shares([[1, 3], [200, 200], [0, 0]])")
    assert found == {"shares": [[0.25, 0.75], [0.5, 0.5], [0, 0]], "most": 0.75}
