from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.workers.training.buckets import (
    MODEL,
    check_restart,
    check_throwaway_passes,
    how_many_fewer,
    losses,
    many_buckets,
    told,
    with_many_buckets,
)
from tests.workers.training.ranks import Point, tiny_spec, train_on

STEPS = 30
# Of DDP's bytes; a factor of a matrix of 64 x 64 is an eighth of it, and gains travel whole.
FEWER = {"fp16": 2.0, "bf16": 2.0, "powersgd": 8.0}
BAND = {"fp16": 1e-4, "bf16": 1e-3, "powersgd": 2e-2}  # of each loss, relative to DDP's


def trained(compression: str, *, setup: Any = many_buckets, **changes: Any) -> list[list[Point]]:
    changes = {"steps": STEPS, "batch_size": 8, "accumulate": 2, "model": MODEL, **changes}
    return train_on(2, tiny_spec(world=2, parallel={"compression": compression}, **changes), setup=setup)


@pytest.fixture(scope="module")
def plain() -> list[list[Point]]:
    """What DDP has logged, without compression."""
    return trained("none")


@pytest.mark.parametrize("name", ["fp16", "bf16", "powersgd"])
def test_it_learns_what_ddp_learns_in_fewer_bytes_from_every_bucket(name: str, plain: list[list[Point]]) -> None:
    ranks = trained(name)
    assert min(told(ranks, "test/buckets")) >= 5
    assert how_many_fewer(ranks) >= FEWER[name]
    expected, found = losses(plain), losses(ranks)
    assert max(abs(found[step] - expected[step]) / expected[step] for step in expected) < BAND[name]
    assert found != expected
    weights = told(ranks, "test/weights")
    assert weights[0] == weights[1]


def compress_only_the_last_bucket() -> None:
    """What stock hooks come to when each bucket counts the steps on its own: the loss looks perfect."""
    from workers.training.strategies.compression import PowerSGD

    plain = PowerSGD._sort

    def sort(self, bucket):  # type: ignore[no-untyped-def]
        factored, others = plain(self, bucket)
        if bucket.is_last():
            return factored, others
        return [], [*others, *(each.matrix for each in factored)]

    PowerSGD._sort = sort  # type: ignore[method-assign]


def test_the_bytes_show_when_only_one_bucket_is_compressed() -> None:
    assert how_many_fewer(trained("powersgd", setup=with_many_buckets(compress_only_the_last_bucket), steps=2)) < 2


def leave_reduction_out() -> None:
    """Let what comes back never reach the gradients."""
    from workers.training.strategies.compression import Compression

    plain = Compression._send
    Compression._send = lambda self, tensor: plain(self, tensor.clone())  # type: ignore[method-assign]


@pytest.mark.parametrize("name", ["bf16", "powersgd"])
def test_ranks_part_when_the_reduction_is_left_out(name: str) -> None:
    weights = told(trained(name, setup=with_many_buckets(leave_reduction_out), steps=3), "test/weights")
    assert weights[0] != weights[1]


def check_that_nothing_is_lost() -> None:
    """Compare, in each backward pass, the mean of what ranks wanted to send with what came and what is still owed."""
    import torch
    import torch.distributed as dist

    from workers.training import main
    from workers.training.strategies.compression import PowerSGD

    plain_travel, plain_loop = PowerSGD._travel, main.run_loop
    owed: list[float] = []

    def mean(tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.clone()
        dist.all_reduce(tensor)
        return tensor / 2

    def travel(self, bucket):  # type: ignore[no-untyped-def]
        factored, _ = self._sort(bucket)
        wanted = [mean(each.matrix + each.residual) for each in factored]
        yield from plain_travel(self, bucket)
        for each, whole in zip(factored, wanted, strict=True):
            torch.testing.assert_close(each.matrix + mean(each.residual), whole, rtol=1e-4, atol=1e-5)
            owed.append(float(each.residual.norm() / max(float(whole.norm()), 1e-12)))

    def run_loop(training, metrics, *rest):  # type: ignore[no-untyped-def]
        plain_loop(training, metrics, *rest)
        metrics.log({"test/owed": max(owed), "test/checked": len(owed)})

    PowerSGD._travel = travel  # type: ignore[method-assign]
    main.run_loop = run_loop


def test_what_powersgd_does_not_send_it_keeps_for_the_next_step() -> None:
    ranks = trained("powersgd", setup=with_many_buckets(check_that_nothing_is_lost), steps=6)
    assert min(told(ranks, "test/checked")) >= 6 * 10
    assert min(told(ranks, "test/owed")) > 0.1


def forget_nothing() -> None:
    from workers.training.strategies.compression import PowerSGD

    PowerSGD.forget = lambda self: None  # type: ignore[method-assign]


def test_a_restart_with_the_state_of_a_checkpoint_changes_nothing() -> None:
    check_restart(partial(trained, "powersgd"))


def test_throwaway_passes_leave_no_trace_and_a_rerun_is_equal_bit_for_bit() -> None:
    check_throwaway_passes(partial(trained, "powersgd"), forget_nothing)
