"""Data parallel is the same mathematics to the last digits of a 32-bit float, and each thing left out is seen."""

from __future__ import annotations

import pytest

from tests.workers.training.parity import check_parity, distance
from tests.workers.training.ranks import series, tiny_spec, train_on

LIMIT = 1e-6  # relative, of each of 20 losses
GRADIENT_LIMIT = 1e-5  # a gradient's smallest numbers are differences of large ones
BATCH = {"batch_size": 24}  # divides by 2, 3 and 4 ranks, twice
CLIP = 0.25  # below the norm of every step


def average_by_sum() -> None:
    """Forget to divide by the number of ranks."""
    import torch.distributed as dist

    from workers.training.strategies import data_parallel

    plain = data_parallel.replicate

    def applied(*arguments, **named):  # type: ignore[no-untyped-def]
        replica = plain(*arguments, **named)

        def total(state, bucket):  # type: ignore[no-untyped-def]  # DDP reads annotations, and not as strings
            return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda done: done.value()[0])

        replica.register_comm_hook(None, total)
        return replica

    data_parallel.replicate = applied


def leave_reduction_out() -> None:
    from workers.training.strategies import data_parallel

    data_parallel.replicate = lambda model, mesh, *rest, **named: model


def forget_all_but_the_last_micro_batch() -> None:
    """Let the reducing pass start from nothing."""
    from workers.training.passes import PlainPasses

    plain = PlainPasses.train

    def train(self, step):  # type: ignore[no-untyped-def]
        loss, calls = self._task.loss, []

        def forgetful(model, batch):  # type: ignore[no-untyped-def]
            calls.append(batch)
            if len(calls) == self._share.accumulate:
                model.zero_grad()
            return loss(model, batch)

        self._task.loss = forgetful
        try:
            return plain(self, step)
        finally:
            self._task.loss = loss

    PlainPasses.train = train  # type: ignore[method-assign]


@pytest.mark.parametrize("world", [2, 3, 4])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_ranks_learn_what_one_process_learns(world: int, accumulate: int) -> None:
    check_parity(
        world, {}, limit=LIMIT, gradient_limit=GRADIENT_LIMIT, gradient_clip=CLIP, apart={"accumulate": accumulate},
        **BATCH,
    )  # fmt: skip


def test_the_clip_of_these_runs_is_at_work_in_every_step() -> None:
    (alone,) = train_on(1, tiny_spec(steps=20, gradient_clip=CLIP, **BATCH))
    assert min(series(alone, "train/gradient_norm").values()) > CLIP


def test_sgd_without_a_clip_shows_gradients_of_the_wrong_size() -> None:
    changes = {"optimizer": "sgd", "gradient_clip": 0, "learning_rate": 0.1, **BATCH}
    check_parity(2, {}, limit=LIMIT, gradient_limit=GRADIENT_LIMIT, **changes)
    assert distance(2, {}, setup=average_by_sum, **changes).loss > 1000 * LIMIT


@pytest.mark.parametrize("world", [2, 4])
def test_it_goes_red_when_the_reduction_is_left_out(world: int) -> None:
    found = distance(world, {}, setup=leave_reduction_out, gradient_clip=CLIP, **BATCH)
    assert found.loss > 1000 * LIMIT
    assert found.gradient > 1000 * GRADIENT_LIMIT


def test_it_goes_red_when_gradients_are_summed_and_not_averaged() -> None:
    assert distance(2, {}, setup=average_by_sum, gradient_clip=CLIP, **BATCH).gradient > 0.9


def test_it_goes_red_when_only_the_last_micro_batch_counts() -> None:
    found = distance(
        2, {}, setup=forget_all_but_the_last_micro_batch, gradient_clip=CLIP, apart={"accumulate": 2}, **BATCH
    )
    assert found.loss > 1000 * LIMIT
    assert found.gradient > 1000 * GRADIENT_LIMIT
