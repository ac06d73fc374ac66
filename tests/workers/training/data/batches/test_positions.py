"""Which samples steps take when batches are left out."""

from __future__ import annotations

from workers.training.data.batches.positions import Positions, Skipped, SkippedSteps


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
