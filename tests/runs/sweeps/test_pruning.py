"""Pruners: reports in, verdict out."""

from __future__ import annotations

from typing import Any

import numpy as np

from runs.records.points.read import Curve
from runs.sweeps.observing import seconds_trained
from runs.sweeps.pruning import Report, bracket_of, judge, rungs_of
from trainyard.spec.sweeps import Objective, Pruner

LOSS = Objective(metric="loss")


def reports(*values: float) -> list[Report]:
    return [Report(10 * place, value) for place, value in enumerate(values, 1)]


def pruner(**fields: Any) -> Pruner:
    return Pruner.model_validate(fields)


def test_asha_lets_the_best_third_of_a_rung_go_on() -> None:
    asha = pruner(name="asha", min=10, factor=3)
    others = [{10: value} for value in (1.0, 2.0, 3.0, 4.0, 5.0)]
    assert judge(asha, LOSS, 6, reports(1.5), {}, others).pruned_at is None
    verdict = judge(asha, LOSS, 6, reports(2.5), {}, others)
    assert verdict.pruned_at == 10
    assert verdict.sentence == "Stopped at step 10: loss 2.5 is not among the best 2 of 6 trials that came so far."


def test_what_was_let_go_on_at_a_rung_is_not_looked_at_there_again() -> None:
    asha = pruner(name="asha", min=10, factor=3)
    first = judge(asha, LOSS, 0, reports(3.0), {}, [])
    assert first.rungs == {10: 3.0}
    later = judge(asha, LOSS, 0, reports(3.0, 2.9), first.rungs, [{10: 1.0}, {10: 1.1}])
    assert later.pruned_at is None
    third = judge(asha, LOSS, 0, reports(3.0, 2.9, 2.8), later.rungs, [{10: 1.0, 30: 1.0}])
    assert third.pruned_at == 30, "the next rung is at three times the step"


def test_more_is_better_where_the_objective_is_maximized() -> None:
    accuracy = Objective(metric="accuracy", direction="maximize")
    asha = pruner(name="asha", min=10, factor=2)
    others = [{10: 0.5}, {10: 0.9}]
    assert judge(asha, accuracy, 2, reports(0.95), {}, others).pruned_at is None
    assert judge(asha, accuracy, 2, reports(0.4), {}, others).pruned_at == 10


def test_the_median_waits_for_enough_trials_and_takes_the_best_so_far() -> None:
    middle = pruner(name="median", min=10, startup_trials=3)
    others = [{10: 1.0}, {10: 2.0}, {10: 3.0}]
    assert judge(middle, LOSS, 3, reports(9.0), {}, others[:2]).pruned_at is None
    assert judge(middle, LOSS, 3, reports(2.5), {}, others).pruned_at == 10
    assert judge(middle, LOSS, 3, reports(1.5), {}, others).pruned_at is None


def test_a_value_that_is_no_number_ends_a_trial_that_has_a_pruner() -> None:
    assert judge(pruner(name="asha", min=10), LOSS, 0, reports(float("nan")), {}, []).pruned_at == 10
    assert judge(pruner(name="none"), LOSS, 0, reports(float("nan")), {}, []).pruned_at is None


def test_brackets_of_hyperband_begin_at_different_rungs() -> None:
    bands = pruner(name="hyperband", min=1, max=27, factor=3)
    assert [bracket_of(bands, number) for number in range(5)] == [0, 1, 2, 3, 0]
    assert list(rungs_of(bands, 1, 100)) == [3, 9]


def test_a_trial_that_has_reached_its_last_step_is_not_pruned_there() -> None:
    asha = pruner(name="asha", min=10, factor=2)
    others = [{10: 1.0, 20: 0.5}]
    assert judge(asha, LOSS, 1, reports(0.9, 0.8), {10: 0.9}, others).pruned_at == 20
    assert judge(asha, LOSS, 1, reports(0.9, 0.8), {10: 0.9}, others, last_step=20).pruned_at is None


def test_a_slow_trial_is_compared_by_time_with_what_others_had_after_as_long() -> None:
    by_time = pruner(name="asha", min=30, factor=2, by="time")
    slow = [Report(10, 3.0, 20.0), Report(20, 2.0, 40.0)]
    assert judge(by_time, LOSS, 1, slow[:1], {}, [{30: 1.0}]).rungs == {}, "30 s are not over"
    verdict = judge(by_time, LOSS, 1, slow, {}, [{30: 1.0}])
    assert verdict.pruned_at == 20 and verdict.rungs == {30: 2.0}
    assert verdict.sentence.startswith("Stopped at step 20, after 40.0 s: loss 2 is not among the best of 2 trials")
    tokens = pruner(name="median", min=1_000, startup_trials=1, by="tokens")
    verdict = judge(tokens, LOSS, 1, [Report(10, 3.0, 1_280.0)], {}, [{1_000: 1.0}])
    assert verdict.sentence.startswith("Stopped at step 10, after 1,280 tokens: loss 3 is worse than 1")


def curve(fence: int, steps: list[int], times: list[float]) -> Curve:
    columns = {"step": np.array(steps), "time": np.array(times), "value": np.zeros(len(steps))}
    return Curve("r", "loss", {}, fence, "raw", columns)


def test_time_between_attempts_and_steps_that_are_trained_again_do_not_count() -> None:
    found = seconds_trained([curve(2, [30, 40], [1_010, 1_020]), curve(1, [10, 20], [110, 120])], {1: 100, 2: 1_000})
    assert found == [(10, 10), (20, 20), (30, 30), (40, 40)]
