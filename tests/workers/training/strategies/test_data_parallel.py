from __future__ import annotations

import os

import pytest

from tests.workers.training.ranks import series, tiny_spec, train_on

TOLERANCE = 1e-6  # relative; measured 2e-7, and without reduction 1e-2 at the second step


def leave_reduction_out() -> None:
    """Let each rank follow its own gradients."""
    from workers.training.strategies import data_parallel

    data_parallel.replicate = lambda model, mesh, **rest: model


def draw_numbers_in_every_forward() -> None:
    """Make the loss depend on torch's random state, as dropout does."""
    import torch

    from workers.training.recipes.language_model import LanguageModelTask

    plain = LanguageModelTask.loss
    LanguageModelTask.loss = lambda self, model, batch: plain(self, model, batch) * (1 + torch.rand(()))


def largest_difference(one: dict[int | None, float], other: dict[int | None, float]) -> float:
    assert one.keys() == other.keys()
    return max(abs(one[step] - other[step]) / abs(one[step]) for step in one)


def test_two_ranks_learn_what_one_learns() -> None:
    (alone,) = train_on(1, tiny_spec())
    pair = train_on(2, tiny_spec(world=2))
    for name in ("train/loss", "val/loss", "train/gradient_norm"):
        assert largest_difference(series(alone, name), series(pair[0], name)) < TOLERANCE, name


def test_parity_goes_red_when_reduction_is_left_out() -> None:
    (alone,) = train_on(1, tiny_spec())
    pair = train_on(2, tiny_spec(world=2), setup=leave_reduction_out)
    assert largest_difference(series(alone, "train/loss"), series(pair[0], "train/loss")) > 100 * TOLERANCE


def test_accumulation_changes_nothing_but_the_memory() -> None:
    (alone,) = train_on(1, tiny_spec())
    pair = train_on(2, tiny_spec(world=2, accumulate=4))
    assert largest_difference(series(alone, "train/loss"), series(pair[0], "train/loss")) < TOLERANCE


@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_the_same_run_again_is_equal_bit_for_bit(world_size: int) -> None:
    spec = tiny_spec(world=world_size, batch_size=12)
    first, second = (series(train_on(world_size, spec)[0], "train/loss") for _ in range(2))
    assert first == second


def test_throwaway_passes_leave_the_random_state_as_it_was() -> None:
    """With as many throwaway passes as under two ranks, one rank draws the numbers that it draws without."""

    def losses(setup: object) -> dict[int | None, float]:
        return series(train_on(1, tiny_spec(steps=2), setup=setup)[0], "train/loss")  # type: ignore[arg-type]

    assert losses(draw_numbers_in_every_forward) == losses(draw_numbers_after_throwaways)


def draw_numbers_after_throwaways() -> None:
    from workers.training.strategies import data_parallel

    draw_numbers_in_every_forward()
    data_parallel.num_throwaway_passes = lambda model: 2


def test_ranks_with_different_text_refuse_to_train_together() -> None:
    with pytest.raises(ValueError, match=r"the content of task\.data differs between ranks: rank 0 has"):
        train_on(2, tiny_spec(world=2), setup=give_each_rank_its_own_digest)


def give_each_rank_its_own_digest() -> None:
    from workers.training.recipes.language_model import LanguageModelTask

    plain = LanguageModelTask.__init__

    def changed(self, *arguments):  # type: ignore[no-untyped-def]
        plain(self, *arguments)
        self.data_digest += str(os.getpid())

    LanguageModelTask.__init__ = changed  # type: ignore[method-assign]


def test_nothing_holds_the_process_group_when_a_rank_leaves_it() -> None:
    train_on(2, tiny_spec(world=2, steps=2), setup=refuse_to_leave_with_a_replica)


def refuse_to_leave_with_a_replica() -> None:
    import gc

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    gc.disable()  # so that luck frees nothing
    plain = dist.destroy_process_group

    def checked() -> None:
        assert not any(type(thing) is DistributedDataParallel for thing in gc.get_objects())
        plain()

    dist.destroy_process_group = checked
