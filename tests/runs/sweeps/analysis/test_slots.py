"""The timeline of slots, and what pruning saved."""

from __future__ import annotations

import pytest

from runs.sweeps.analysis.slots import Occupation, saved_by_pruning, timeline
from tests.sweep_trials import trial


def test_a_trial_takes_the_first_lane_of_its_node_that_is_free() -> None:
    found = timeline(
        [
            Occupation(0, "b", 1, 0, 10),
            Occupation(1, "b", 1, 5, 20),
            Occupation(2, "b", 1, 12, 30),
            Occupation(3, "a", 2, 0, 9),
        ]
    )
    assert found.lanes == ["a · 1", "a · 2", "b · 1", "b · 2"]
    assert sorted((one.number, one.lane) for one in found.bars) == [(0, 2), (1, 3), (2, 2), (3, 0), (3, 1)]


def test_an_end_that_is_recorded_a_moment_late_opens_no_lane() -> None:
    assert timeline([Occupation(0, "a", 1, 0, 10.4), Occupation(1, "a", 1, 10, 20)]).lanes == ["a · 1"]


def test_saved_are_the_steps_not_run_at_what_one_usually_cost_and_not_what_came_before_the_first() -> None:
    trials = [
        trial(0, 1.0),  # complete: took 10
        trial(1, 1.0, state="PRUNED", steps=25, rank_seconds=50.0, step_cost=0.2),  # 0.2 a step, 75 steps left: 15
        trial(2, 1.0, state="PRUNED", steps=50, rank_seconds=5.0, step_cost=0.1),  # 0.1 a step, 50 left: 5
        trial(3, None, state="PRUNED", steps=0, rank_seconds=1.0),
    ]
    found = saved_by_pruning(trials, dict.fromkeys(range(4), 100))
    assert found.saved_rank_seconds == pytest.approx(20) and found.taken_rank_seconds == 66
    assert (found.num_pruned, found.num_unknown) == (3, 1) and found.share == pytest.approx(20 / 86)


def test_nothing_taken_has_no_share() -> None:
    assert saved_by_pruning([], {}).share is None
