"""The best value so far: over trials, and over what all of them took."""

from __future__ import annotations

from datetime import timedelta

from runs.sweeps.analysis.best import best_over_compute, best_over_trials
from tests.sweep_trials import START, trial


def test_only_what_is_better_is_an_improvement() -> None:
    trials = [trial(0, 3.0), trial(1, 4.0), trial(2, 1.0), trial(3, 2.0)]
    found = best_over_trials(trials, "minimize")
    assert [(one.at, one.number, one.value) for one in found.improvements] == [(0, 0, 3.0), (2, 2, 1.0)]
    assert found.end == 3
    assert [one.number for one in best_over_trials(trials, "maximize").improvements] == [0, 1]


def test_what_failed_was_pruned_or_is_no_number_is_never_the_best_and_costs_all_the_same() -> None:
    trials = [
        trial(0, None, state="FAILED"), trial(1, 0.1, state="PRUNED", rank_seconds=4), trial(2, float("nan")),
        trial(3, 2.0), trial(4, 9.0),
    ]  # fmt: skip
    found = best_over_compute(trials, "minimize")
    assert [(one.at, one.value) for one in found.improvements] == [(34.0, 2.0)] and found.end == 44.0


def test_over_compute_the_order_is_that_of_the_ends() -> None:
    late = trial(0, 5.0, ended_at=START + timedelta(hours=1))
    found = best_over_compute([late, trial(1, 7.0), trial(2, 1.0, ended_at=None)], "minimize")
    assert [(one.at, one.number) for one in found.improvements] == [(10.0, 1), (20.0, 0)]


def test_without_trials_there_is_nothing() -> None:
    assert best_over_trials([], "minimize") == best_over_compute([], "minimize") == ([], 0.0)
