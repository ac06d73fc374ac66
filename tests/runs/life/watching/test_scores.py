"""Who is blamed for being slow, and above all who is not."""

from __future__ import annotations

import numpy as np
import pytest

from runs.life.watching.scores import OWN, WAITING, RankMeasurements, scores, slow_ranks
from tests.runs.life.watching.measures import measured, noisy, slowed

OVER = 50


def test_a_slow_rank_is_named_with_its_phase_and_since_when() -> None:
    found = slow_ranks(measured(slowed(noisy(1, 8, 300), 3, "forward", 4.0, since=180)), factor=1.5, over=OVER)
    (slow,) = found
    assert (slow.rank, slow.phase) == (3, "forward")
    assert slow.times == pytest.approx(4.0, rel=0.25)
    assert abs(slow.since_step - 191) <= 8  # steps count from 11 here
    assert slow.last_step == 310


@pytest.mark.parametrize(("num_ranks", "num_seeds"), [(2, 100), (4, 60), (8, 30), (64, 3)])
def test_of_many_seeds_the_slow_rank_is_named_and_no_other(num_ranks: int, num_seeds: int) -> None:
    wrong, missed = 0, 0
    for seed in range(num_seeds):
        rank = seed % num_ranks
        times = slowed(noisy(seed, num_ranks, 400), rank, "backward", 3.0, since=80)
        named = set()
        for end in range(150, 401, 25):  # as a live run is looked at again and again
            seen = {name: values[:, end - 150 : end] for name, values in times.items()}
            named |= {one.rank for one in slow_ranks(measured(seen), factor=1.5, over=OVER)}
        wrong += bool(named - {rank})
        missed += rank not in named
    assert (wrong, missed) == (0, 0)


@pytest.mark.parametrize(("num_ranks", "num_seeds"), [(2, 200), (3, 100), (8, 200), (64, 5)])
def test_of_many_seeds_of_noise_nobody_is_named(num_ranks: int, num_seeds: int) -> None:
    """Each seed is looked at ten times, as a live run would be."""
    wrong = []
    for seed in range(num_seeds):
        whole = noisy(seed, num_ranks, 300)
        for end in range(75, 301, 25):
            times = {name: values[:, max(0, end - 150) : end] for name, values in whole.items()}
            if found := slow_ranks(measured(times), factor=1.5, over=OVER):
                wrong.append((seed, end, found))
    assert wrong == []


def test_nobody_is_named_where_most_are_slow() -> None:
    times = noisy(2, 4, 200)
    for rank in (0, 1, 2):
        times = slowed(times, rank, "forward", 3.0)
    assert slow_ranks(measured(times), factor=1.5, over=OVER) == []
    both = slowed(slowed(noisy(3, 2, 200), 0, "forward", 3.0), 1, "forward", 3.0)
    assert slow_ranks(measured(both), factor=1.5, over=OVER) == []


def test_nobody_is_named_alone_or_too_early() -> None:
    assert slow_ranks(measured(slowed(noisy(4, 1, 200), 0, "forward", 5.0)), factor=1.5, over=OVER) == []
    assert slow_ranks(measured(slowed(noisy(4, 4, 49), 0, "forward", 5.0)), factor=1.5, over=OVER) == []


def test_a_rank_that_the_others_do_not_wait_for_is_not_to_blame() -> None:
    times = slowed(noisy(5, 4, 200), 1, "optimizer", 8.0)
    found = measured(times)
    patient = RankMeasurements(found.ranks, found.steps, {**times, WAITING: np.full((4, 200), 0.0005)})
    assert slow_ranks(patient, factor=1.5, over=OVER) == []
    assert [one.rank for one in slow_ranks(patient, factor=1.5, over=OVER, waits=False)] == [1]


def test_a_waiting_rank_is_not_blamed_for_the_time_of_its_collectives() -> None:
    found = measured(slowed(noisy(6, 4, 200), 2, "data", 60.0))
    assert all(found.phases[WAITING][rank].mean() > found.own[rank].mean() for rank in (0, 1, 3))
    (slow,) = slow_ranks(found, factor=1.5, over=OVER)
    assert (slow.rank, slow.phase) == (2, "data")


def test_a_rank_stays_named_until_it_has_come_half_of_the_way_back() -> None:
    times = measured(slowed(noisy(7, 4, 200), 1, "backward", 1.6))
    assert slow_ranks(times, factor=1.5, over=OVER) == []
    (slow,) = slow_ranks(times, factor=1.5, over=OVER, known={1: 40})
    assert slow.since_step == 40
    assert slow_ranks(measured(noisy(7, 4, 200)), factor=1.5, over=OVER, known={1: 40}) == []


def test_missing_points_of_a_rank_blame_nobody() -> None:
    times = noisy(8, 4, 200)
    for name in OWN:
        times[name][2, 120:190] = np.nan
    assert slow_ranks(measured({name: np.nan_to_num(one) for name, one in times.items()}), factor=1.5, over=OVER) == []
    own = measured(noisy(8, 4, 200))
    phases = {name: np.where(np.arange(200) >= 120, np.nan, values) for name, values in own.phases.items()}
    assert slow_ranks(RankMeasurements(own.ranks, own.steps, phases), factor=1.5, over=OVER) == []


def test_the_scores_compare_with_the_others_and_with_the_own_past() -> None:
    found = scores(measured(slowed(noisy(9, 4, 300), 0, "backward", 3.0, since=240)), OVER)
    assert found[0].relative > 1.7 and found[0].past is not None and found[0].past > 1.5
    assert all(0.8 < one.relative < 1.25 for one in found[1:])
    assert found[0].wait < min(one.wait for one in found[1:])
    every = noisy(9, 4, 300)
    for rank in range(4):
        every = slowed(every, rank, "backward", 3.0, since=240)
    assert all(0.8 < one.relative < 1.25 and (one.past or 0) > 1.5 for one in scores(measured(every), OVER))
