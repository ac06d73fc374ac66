from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from workers.training.data.batches.order import EpochOrder, Positions, Skipped, SkippedSteps


@pytest.mark.parametrize("num_rows", [1, 2, 3, 4, 5, 7, 16, 17, 100, 1000, 4096, 4097, 10_007])
@pytest.mark.parametrize("epoch", [0, 1, 1000])
def test_each_row_comes_once_an_epoch(num_rows: int, epoch: int) -> None:
    rows = EpochOrder(num_rows, seed=3).rows(slice(epoch * num_rows, (epoch + 1) * num_rows))
    assert sorted(rows.tolist()) == list(range(num_rows))


def test_whoever_asks_for_a_part_gets_that_part() -> None:
    order = EpochOrder(23, seed=1)
    whole = order.rows(slice(0, 100)).tolist()
    assert [order.rows(slice(at, at + 1)).tolist() for at in range(100)] == [[row] for row in whole]
    assert EpochOrder(23, seed=1).rows(slice(40, 90)).tolist() == whole[40:90]
    assert order.rows(slice(7, 7)).tolist() == []


def test_every_epoch_and_every_seed_has_another_order() -> None:
    orders = {
        tuple(EpochOrder(100, seed).rows(slice(epoch * 100, epoch * 100 + 100)).tolist())
        for seed in (0, 1, 2**63 - 1)
        for epoch in (0, 1, 2)
    }
    assert len(orders) == 9


def test_neighbours_in_the_order_are_no_neighbours_in_the_data() -> None:
    rows = EpochOrder(10_007, seed=1).rows(slice(0, 10_007))
    places = np.arange(len(rows))
    assert abs(np.corrcoef(places, rows)[0, 1]) < 0.05
    assert abs(np.corrcoef(rows[1:], rows[:-1])[0, 1]) < 0.05
    assert (np.abs(np.diff(rows)) == 1).sum() < 20


def test_no_order_of_a_few_rows_is_left_out() -> None:
    found = [tuple(EpochOrder(4, seed).rows(slice(0, 4)).tolist()) for seed in range(2400)]
    counts = [found.count(one) for one in set(found)]
    assert len(counts) == 24 and min(counts) > 50


def test_a_thousand_million_rows_take_no_memory_to_speak_of() -> None:
    order = EpochOrder(10**9, seed=1)
    rows = order.rows(slice(10**9 - 5, 10**9 + 5))
    assert len(set(rows.tolist())) == 10 and rows.max() < 10**9
    assert sum(array.nbytes for pair in order._epoch.rounds for array in pair) < 2_000_000


def test_the_order_is_that_of_every_other_day() -> None:
    """A run that is resumed after an upgrade must see the rows that it has not seen."""
    assert EpochOrder(1000, seed=0).rows(slice(0, 5)).tolist() == [765, 88, 580, 697, 149]
    assert EpochOrder(1000, seed=7).rows(slice(998, 1003)).tolist() == [99, 940, 651, 977, 666]
    assert EpochOrder(10_000, seed=0).rows(slice(0, 5)).tolist() == [8045, 7092, 8427, 9878, 5956]


def test_threads_in_different_epochs_do_not_disturb_each_other() -> None:
    order = EpochOrder(50, seed=1)
    wanted = [slice(epoch * 50, epoch * 50 + 50) for epoch in range(8)]
    expected = [EpochOrder(50, seed=1).rows(one).tolist() for one in wanted]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda one: order.rows(one).tolist(), wanted * 20))
    assert found == expected * 20


def test_without_rows_there_is_no_order() -> None:
    with pytest.raises(ValueError, match="there are 0 rows; an order needs one or more"):
        EpochOrder(0, seed=1)


@pytest.mark.parametrize("num_rows", [1, 7, 100, 10_000])
def test_positions_with_gaps_between_them_are_those_of_the_whole(num_rows: int) -> None:
    order = EpochOrder(num_rows, 3)
    positions = np.arange(0, 3 * num_rows + 5)[:: max(1, num_rows // 10)]
    assert order.rows(positions).tolist() == order.rows(slice(0, 3 * num_rows + 5))[positions].tolist()


# Which samples steps take when batches are left out.


def begins(order: Positions, steps: range) -> list[int]:
    return [order.samples_before(step) for step in steps]


def test_without_skips_batches_follow_each_other() -> None:
    assert begins(Positions(8), range(1, 5)) == [0, 8, 16, 24]
    assert begins(Positions(8, 11, 100), range(11, 14)) == [100, 108, 116]


def test_the_batches_of_skipped_steps_are_left_out_and_the_others_keep_their_order() -> None:
    order = Positions(8).without([SkippedSteps(1, 3, 4)])
    assert order.skipped == (Skipped(16, 32),)
    assert begins(order, range(1, 6)) == [0, 8, 32, 40, 48]


def test_from_a_checkpoint_it_is_the_same_as_from_the_start() -> None:
    whole = Positions(8).without([SkippedSteps(1, 13, 14), SkippedSteps(2, 16, 16)])
    later = Positions(8, 11, 80).without([SkippedSteps(1, 13, 14), SkippedSteps(2, 16, 16)])
    assert begins(whole, range(11, 30)) == begins(later, range(11, 30))
    behind = Positions(8, 15, whole.samples_before(15), later.skipped)
    assert begins(behind, range(15, 30)) == begins(whole, range(15, 30))


def test_a_second_skip_counts_steps_as_the_first_left_them() -> None:
    once = Positions(8).without([SkippedSteps(1, 3, 4)])
    twice = once.without([SkippedSteps(2, 3, 3)])
    assert begins(once, range(3, 5)) == [32, 40]
    assert begins(twice, range(1, 5)) == [0, 8, 40, 48]


def test_no_batch_touches_what_is_skipped_where_batches_had_another_size() -> None:
    order = Positions(5, skipped=(Skipped(8, 24), Skipped(24, 30)))
    assert begins(order, range(1, 5)) == [0, 30, 35, 40]
    taken = {
        sample for step in range(1, 20) for sample in range(order.samples_before(step), order.samples_before(step) + 5)
    }
    assert not taken & set(range(8, 30))


def test_each_sample_is_taken_once_or_skipped() -> None:
    order = Positions(4).without([SkippedSteps(1, 2, 3), SkippedSteps(2, 5, 9), SkippedSteps(3, 6, 6)])
    starts = begins(order, range(1, 40))
    assert starts == sorted(set(starts))
    skipped = {sample for one in order.skipped for sample in range(*one)}
    taken = {sample for start in starts for sample in range(start, start + 4)}
    assert taken | skipped >= set(range(100)) and not taken & skipped
