from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workers.training.checkpoints.yard import Yard, after
from tests.workers.training.ranks import Point, series, tiny_spec, train_on
from workers.training.measuring.memory import cgroup_bytes
from workers.training.startup import batch_size
from workers.training.startup.batch_size import SizeTrial, largest_that_fits, quickest, scaled_learning_rate


def memory_for(limit: int, tried: list[int]) -> Callable[[int], SizeTrial]:
    def attempt(rows: int) -> SizeTrial:
        tried.append(rows)
        return SizeTrial(rows, fits=rows <= limit)

    return attempt


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8, 24, 25, 100, 1000, 4097])
@pytest.mark.parametrize("start", [1, 3, 8, 64])
def test_the_memory_limit_is_closed_in_on_to_a_sixteenth(limit: int, start: int) -> None:
    tried: list[int] = []
    found = largest_that_fits(memory_for(limit, tried), start)
    assert limit - max(1, limit // 16) <= found <= limit
    assert max(tried) <= max(2 * limit, start)
    assert len(tried) <= 20


def test_small_limits_are_met_exactly() -> None:
    assert [largest_that_fits(memory_for(limit, []), 4) for limit in range(20)] == list(range(20))


def test_sizes_are_tried_from_the_smallest_and_the_one_asked_for_is_among_them() -> None:
    tried: list[int] = []
    largest_that_fits(memory_for(30, tried), 6)
    assert tried[:6] == [1, 2, 4, 6, 12, 24]


def speed(*, half_at: int, limit: int = 10**9) -> Callable[[int], SizeTrial]:
    """Tokens a second that grow towards 1: half of it with ``half_at`` rows."""
    return lambda rows: SizeTrial(rows, fits=rows <= limit, units_per_second=rows / (rows + half_at))


@pytest.mark.parametrize(("half_at", "expected"), [(0, 4), (4, 32), (100, 512)])
def test_the_batch_grows_while_doubling_brings_a_tenth_more(half_at: int, expected: int) -> None:
    """(2r / (2r + h)) / (r / (r + h)) < 1.1 from r = 4 h on."""
    assert quickest(speed(half_at=half_at), 4) == expected


def test_throughput_stops_where_memory_does() -> None:
    assert quickest(speed(half_at=100, limit=100), 4) == 64
    assert quickest(speed(half_at=100, limit=2), 4) == 2
    assert quickest(speed(half_at=100, limit=0), 4) == 0


@pytest.mark.parametrize(("how", "expected"), [("none", 0.1), ("linear", 0.4), ("sqrt", 0.2)])
def test_the_learning_rate_grows_with_the_batch_as_asked(how: str, expected: float) -> None:
    assert scaled_learning_rate(0.1, 4.0, how) == pytest.approx(expected)


def test_what_is_available_is_read_from_every_group_with_a_limit(tmp_path: Path) -> None:
    inner = tmp_path / "jobs" / "one"
    inner.mkdir(parents=True)
    (inner / "memory.max").write_text("max\n")
    (inner.parent / "memory.max").write_text("5000\n")
    (inner.parent / "memory.current").write_text("2000\n")
    assert cgroup_bytes("0::/jobs/one\n", tmp_path) == [3000]
    old = tmp_path / "memory" / "jobs"
    old.mkdir(parents=True)
    (old / "memory.limit_in_bytes").write_text("700\n")
    (old / "memory.usage_in_bytes").write_text("900\n")
    assert cgroup_bytes("4:cpuset:/jobs\n3:memory:/jobs\n", tmp_path) == [0]
    assert cgroup_bytes("0::/elsewhere\n", tmp_path) == []


def found(points: list[Point]) -> tuple[int, float]:
    return int(series(points, "find/batch_size")[0]), series(points, "find/learning_rate")[0]


def little_memory() -> None:
    """56 MiB for each rank: its first steps take 32 and more alone."""
    batch_size.share_of_memory = lambda device, num_ranks_here: 56 << 20  # type: ignore[attr-defined]


@pytest.mark.parametrize("axis", ["data", pytest.param("shard", marks=pytest.mark.extended)])
def test_two_ranks_find_what_memory_holds_and_train_as_if_it_had_been_asked_for(axis: str) -> None:
    model = {"layers": 1, "context": 512}  # 2 MiB for each row, and little to compute
    changes = {"world": 2, "steps": 3, "parallel": {axis: 2}, "model": model, "validate_every_steps": 0}
    finding = tiny_spec(find_batch_size="memory", scale_learning_rate="sqrt", **changes)
    pair = train_on(2, finding, setup=little_memory)
    size, learning_rate = found(pair[0])
    assert 8 < size <= 128
    assert size % 2 == 0
    assert learning_rate == pytest.approx(1e-3 * (size / 8) ** 0.5)
    held = series(pair[0], "find/memory_bytes")
    assert held[size] <= 56 << 20
    direct = train_on(2, tiny_spec(batch_size=size, learning_rate=learning_rate, **changes))
    for name in ("train/loss", "train/learning_rate", "val/loss"):
        assert series(pair[0], name) == series(direct[0], name), name


def test_a_rank_whose_memory_is_full_says_so_all_try_less_and_what_is_read_ahead_follows() -> None:
    spec = tiny_spec(world=2, steps=3, find_batch_size="memory", validate_every_steps=0)
    pair = train_on(2, spec, setup=fill_the_memory_and_read_ahead)
    assert found(pair[0]) == (2 * 5, 1e-3)
    direct = train_on(2, tiny_spec(world=2, steps=3, batch_size=10, validate_every_steps=0))
    assert series(pair[0], "train/loss") == series(direct[0], "train/loss")


def fill_the_memory_and_read_ahead() -> None:
    from workers.training.data.batches import feed

    feed.WORTH_A_THREAD_S, feed.NUM_READS = 0.0, 1
    fill_the_memory_of_rank_1()


def fill_the_memory_of_rank_1() -> None:
    """As a GPU says it, in the middle of a pass with more than 5 rows."""
    import torch
    import torch.distributed as dist

    from workers.training.recipes.language_model import LanguageModelTask

    plain = LanguageModelTask.loss

    def loss(self: LanguageModelTask, model: torch.nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        if dist.get_rank() == 1 and len(batch[0]) > 5 and torch.is_grad_enabled():
            raise torch.OutOfMemoryError("CUDA out of memory")
        return plain(self, model, batch)

    LanguageModelTask.loss = loss  # type: ignore[method-assign]


@pytest.mark.extended
def test_throughput_is_measured_on_all_ranks_and_the_slowest_counts() -> None:
    spec = tiny_spec(world=2, steps=2, find_batch_size="throughput", scale_learning_rate="linear")
    pair = train_on(2, spec, setup=let_rank_1_be_slow)
    assert found(pair[0]) == (16, pytest.approx(2e-3))
    assert series(pair[0], "find/tokens_per_second")[16] == pytest.approx(16 * 16 / 2.0)


def let_rank_1_be_slow() -> None:
    """It takes 2 s for up to 8 rows, and a second for each 4 beyond; rank 0 a second for any."""
    import torch.distributed as dist

    batch_size.LONGEST_STEP_S = 1000.0

    def timed(self: batch_size.BatchSizeTrials, rows: int) -> float:
        return max(2.0, rows / 4) if dist.get_rank() == 1 else 1.0

    batch_size.BatchSizeTrials._timed = timed  # type: ignore[method-assign]


def test_where_nothing_fits_the_run_is_refused_with_what_helps() -> None:
    with pytest.raises(ValueError, match=r"train\.find_batch_size is 'memory', but not even one row .*parallel\.shard"):
        train_on(1, tiny_spec(find_batch_size="memory"), setup=no_memory)


def no_memory() -> None:
    batch_size.share_of_memory = lambda device, num_ranks_here: 0  # type: ignore[attr-defined]


def test_an_attempt_that_goes_on_keeps_the_batch_that_the_first_has_found(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    changes = {"steps": 6, "find_batch_size": "memory", "scale_learning_rate": "sqrt", "checkpoint": {"every_steps": 3}}
    whole = yard.train(2, setup=fill_the_memory_of_rank_1, **changes)[0]
    assert found(whole)[0] == 10
    # Now memory would hold less.
    resumed = yard.train(2, setup=fill_the_memory_at_once, restore=yard.offers()[1:], **changes)[0]
    assert not series(resumed, "find/batch_size")
    for name in ("train/loss", "train/learning_rate"):
        assert after(resumed, name, 0) == after(whole, name, 3), name


def fill_the_memory_at_once() -> None:
    batch_size.BatchSizeTrials = None  # type: ignore[assignment,misc]  # nothing is tried
