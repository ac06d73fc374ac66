from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

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
from tests.workers.training.parity import check_parity, nothing
from tests.workers.training.ranks import Point, tiny_spec, train_on

STEPS = 30
RATIO = 0.05
TOLERANCE = 1e-5  # relative, of a ratio of 1


def trained(ratio: float = RATIO, *, world: int = 2, setup: Any = many_buckets, **changes: Any) -> list[list[Point]]:
    parallel = {"compression": "topk", "topk_ratio": ratio}
    changes = {"steps": STEPS, "batch_size": 8, "accumulate": 2, "model": MODEL, "parallel": parallel, **changes}
    return train_on(world, tiny_spec(world=world, **changes), setup=setup)


@pytest.mark.parametrize(("ratio", "entries", "kept"), [(0.01, 100, 1), (0.01, 101, 2), (0.01, 1, 1), (1.0, 7, 7)])
def test_a_share_of_each_tensor_is_kept_and_never_nothing(ratio: float, entries: int, kept: int) -> None:
    from workers.training.strategies.topk import num_kept

    assert num_kept(entries, ratio) == kept


def test_the_largest_in_magnitude_are_taken() -> None:
    from workers.training.strategies.topk import take_largest

    owed = torch.tensor([1.0, -5.0, 0.0, 3.0, -2.0])
    values, places = take_largest(owed, 2)
    assert dict(zip(places.tolist(), values.tolist(), strict=True)) == {1: -5.0, 3: 3.0}
    assert owed.tolist() == [1.0, 0.0, 0.0, 0.0, -2.0]


def test_what_was_sent_and_what_is_left_are_the_sum_of_all_gradients() -> None:
    """Whole numbers, which float32 adds without rounding."""
    from workers.training.strategies.topk import take_largest

    generator = torch.Generator().manual_seed(1)
    residual, sent, total = torch.zeros(1_000), torch.zeros(1_000), torch.zeros(1_000)
    for _ in range(50):
        gradient = torch.randint(-1_000, 1_000, (1_000,), generator=generator).float()
        total += gradient
        values, places = take_largest(residual.add_(gradient), 10)
        sent[places] += values
        assert torch.equal(sent + residual, total)
    assert residual.count_nonzero() > 900


def check_that_nothing_is_lost() -> None:
    """Compare, bit for bit, what each bucket owed with what came of it and what is left, on all ranks."""
    import torch
    import torch.distributed as dist

    from workers.training import main
    from workers.training.strategies.topk import TopK

    plain_travel, plain_loop = TopK._travel, main.run_loop
    checked: list[float] = []

    def gathered(tensor: torch.Tensor) -> list[torch.Tensor]:
        found = [torch.empty_like(tensor) for _ in range(2)]
        dist.all_gather(found, tensor.contiguous())
        return found

    def travel(self, bucket):  # type: ignore[no-untyped-def]
        names = [self._names[parameter] for parameter in bucket.parameters()]
        before = [self._kept.get(f"residual/{name}", torch.zeros(())) for name in names]
        owed = [one + gradient.flatten() for one, gradient in zip(before, bucket.gradients(), strict=True)]
        yield from plain_travel(self, bucket)
        for name, own, came in zip(names, owed, bucket.gradients(), strict=True):
            left = self._kept[f"residual/{name}"]
            sent = own - left
            assert not (sent * left).any(), "an entry is sent or left, and never both"
            assert torch.equal(sent + left, own)
            assert torch.equal(came.flatten(), sum(gathered(sent)) / 2)
            checked.append(float(left.count_nonzero() / left.numel()))

    def run_loop(training, metrics, *rest):  # type: ignore[no-untyped-def]
        plain_loop(training, metrics, *rest)
        metrics.log({"test/left": max(checked), "test/checked": len(checked)})

    TopK._travel = travel  # type: ignore[method-assign]
    main.run_loop = run_loop


def test_what_is_not_sent_is_kept_for_the_next_step() -> None:
    ranks = trained(setup=with_many_buckets(check_that_nothing_is_lost), steps=6)
    assert min(told(ranks, "test/checked")) >= 6 * 10
    assert min(told(ranks, "test/left")) > 0.9


def test_a_ratio_of_one_is_the_plain_average() -> None:
    check_parity(2, {"compression": "topk", "topk_ratio": 1.0}, limit=TOLERANCE)


@pytest.mark.parametrize("world", [2, pytest.param(4, marks=pytest.mark.extended)])
def test_every_bucket_travels_in_fewer_bytes_and_ranks_stay_equal(world: int) -> None:
    ranks = trained(world=world, steps=6)
    assert min(told(ranks, "test/buckets")) >= 5
    # An entry of 20 in 8 bytes and to each rank, against all in 4 bytes and twice round the ring.
    assert how_many_fewer(ranks) == pytest.approx(1 / (world * RATIO), rel=0.02)
    assert len(set(told(ranks, "test/weights"))) == 1


@pytest.mark.extended
def test_with_sgd_it_converges_as_the_plain_average_does() -> None:
    """Adam is slower: entries that come late, and then as a sum, are a large second moment to it."""
    sgd = {"optimizer": "sgd", "learning_rate": 0.1, "steps": 120, "accumulate": 1}
    plain, found = (losses(trained(**sgd, **one)) for one in ({"parallel": {}}, {}))
    last = [step for step in plain if step is not None and step > 110]
    assert found != plain
    assert found[120] < 0.5 * found[1]
    assert sum(found[step] for step in last) < 1.05 * sum(plain[step] for step in last)


def drop_the_residuals() -> None:
    from workers.training.strategies.topk import TopK

    plain = TopK._select

    def select(self, bucket):  # type: ignore[no-untyped-def]
        self._kept.clear()
        return plain(self, bucket)

    TopK._select = select  # type: ignore[method-assign]


def test_without_error_feedback_it_learns_less() -> None:
    kept, dropped = (losses(trained(setup=with_many_buckets(one))) for one in (nothing, drop_the_residuals))
    assert kept[STEPS] < dropped[STEPS]


def give_each_rank_its_own() -> None:
    """Let what others send never reach the gradients."""
    import torch
    import torch.distributed as dist

    from workers.training.strategies import topk

    def gather(whole, piece, **named):  # type: ignore[no-untyped-def]
        whole.copy_(piece.repeat(2))
        return dist.all_reduce(torch.zeros(1), async_op=True)

    topk.all_gather_single = gather


def test_ranks_part_when_the_gather_is_left_out() -> None:
    weights = told(trained(setup=with_many_buckets(give_each_rank_its_own), steps=3), "test/weights")
    assert weights[0] != weights[1]


def forget_nothing() -> None:
    from workers.training.strategies.topk import TopK

    TopK.forget = lambda self: None  # type: ignore[method-assign]


def test_a_restart_with_the_state_of_a_checkpoint_changes_nothing() -> None:
    check_restart(trained)


def test_throwaway_passes_leave_no_trace_and_a_rerun_is_equal_bit_for_bit() -> None:
    check_throwaway_passes(trained, forget_nothing)


def test_a_tensor_with_more_entries_than_an_index_reaches_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from workers.training.strategies import topk

    monkeypatch.setattr(topk, "MOST_ENTRIES", 5)
    monkeypatch.setattr("torch.distributed.get_world_size", lambda: 2)
    with pytest.raises(ValueError, match="takes tensors of at most 5 entries, and weight has 6"):
        topk.TopK(nn.Linear(2, 3), ratio=0.1)
