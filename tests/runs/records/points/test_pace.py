from __future__ import annotations

import numpy as np

from runs.records.metrics.codec import Columns
from runs.records.points.pace import Pace, advanced


def points(*pairs: tuple[int, float]) -> Columns:
    return Columns(
        np.array([step for step, _ in pairs], np.int64), np.array([at for _, at in pairs]), np.zeros(len(pairs))
    )


def paced(pace: Pace, attempt: int, parts: list[tuple[str, Columns]]) -> Pace:
    return advanced(pace, attempt, [((name,), columns.steps, columns.times) for name, columns in parts])


def test_the_pace_is_the_largest_step_and_the_median_of_seconds_per_step() -> None:
    pace = paced(Pace(), 1, [("train/loss", points((1, 10.0), (2, 12.0), (3, 13.0), (4, 15.0)))])
    assert (pace.step, pace.step_at, pace.median_step_s) == (4, 15.0, 2.0)
    pace = paced(pace, 1, [("train/loss", points((6, 16.0)))])
    assert (pace.step, pace.step_at, pace.intervals_s) == (6, 16.0, [2.0, 1.0, 2.0, 0.5])


def test_system_series_and_late_ranks_do_not_move_it() -> None:
    pace = Pace(1, 10, 100.0, [1.0])
    assert paced(pace, 1, [("system/cpu", points((99, 101.0)))]) == pace
    assert paced(pace, 1, [("train/loss", points((9, 103.0), (10, 104.0)))]) == pace


def test_validation_counts_only_where_nothing_else_speaks() -> None:
    both = [("val/loss", points((5, 60.0))), ("train/loss", points((4, 40.0)))]
    assert paced(Pace(), 1, both).step == 4
    assert paced(Pace(), 1, both[:1]).step == 5


def test_a_newer_attempt_goes_back_to_its_own_step_and_an_older_one_changes_nothing() -> None:
    pace = Pace(1, 150, 1000.0, [1.0, 1.0])
    newer = paced(pace, 2, [("train/loss", points((101, 2000.0)))])
    assert (newer.attempt, newer.step, newer.step_at, newer.intervals_s) == (2, 101, 2000.0, [1.0, 1.0])
    assert paced(newer, 1, [("train/loss", points((170, 1001.0)))]) == newer


def test_a_clock_that_jumps_back_adds_no_interval() -> None:
    pace = paced(Pace(1, 1, 100.0, []), 1, [("train/loss", points((2, 50.0), (3, 51.0)))])
    assert (pace.step, pace.intervals_s) == (3, [1.0])


def test_steps_that_no_float_tells_apart_are_still_a_step_apart() -> None:
    largest = 2**63 - 1
    pace = paced(Pace(), 1, [("train/loss", points((-(2**63), 0.0), (largest - 1, 1.0), (largest, 3.0)))])
    assert (pace.step, pace.intervals_s[-1]) == (largest, 2.0)
