from __future__ import annotations

import pytest

from trainyard.spec.sections.parallel import Parallel, Pipeline
from workers.training.mesh import make_mesh, share_batch


def parallel(data: int | str = "auto", shard: int = 1, tensor: int = 1, stages: int = 1, **more: int) -> Parallel:
    pipeline = Pipeline.model_construct(stages=stages)
    return Parallel.model_construct(data=data, shard=shard, tensor=tensor, pipeline=pipeline, **more)


def test_ranks_that_share_tensors_share_a_part_of_the_batch() -> None:
    parts = [make_mesh(parallel(shard=2, tensor=2), 8, rank).batch_part for rank in range(8)]
    assert parts == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(("world_size", "accumulate"), [(1, 1), (2, 1), (4, 1), (2, 3), (3, 4)])
def test_all_shares_together_cover_the_batch_once(world_size: int, accumulate: int) -> None:
    shares = [share_batch(24, accumulate, make_mesh(parallel(), world_size, rank)) for rank in range(world_size)]
    rows = [row for share in shares for index in range(accumulate) for row in range(24)[share.rows(index)]]
    assert sorted(rows) == list(range(24))


@pytest.mark.parametrize(("batch_size", "nearest"), [(10, "8 or 12"), (3, "4")])
def test_a_batch_that_does_not_divide_is_refused_with_sizes_that_do(batch_size: int, nearest: str) -> None:
    message = rf"train\.batch_size is {batch_size}, .*accumulate 2 x 2 data ranks = 4 .* are {nearest}$"
    with pytest.raises(ValueError, match=message):
        share_batch(batch_size, 2, make_mesh(parallel(), 2))


@pytest.mark.parametrize(("accumulate", "sizes"), [(1, (15, 8, 1)), (2, (1, 10, 1)), (4, (2, 2, 2))])
def test_uneven_shares_cover_the_batch_once_too(accumulate: int, sizes: tuple[int, ...]) -> None:
    shares = [share_batch(24, accumulate, make_mesh(parallel(), 3, rank)).resized(sizes) for rank in range(3)]
    rows = [row for share in shares for index in range(accumulate) for row in range(24)[share.rows(index)]]
    assert sorted(rows) == list(range(24))


def test_the_weights_of_uneven_shares_make_the_mean_over_rows() -> None:
    sizes = (15, 8, 1)
    shares = [share_batch(24, 1, make_mesh(parallel(), 3, rank)) for rank in range(3)]
    assert [share.weight for share in shares] == [1, 1, 1]
    weights = [share.resized(sizes).weight for share in shares]
    assert [weight / 3 for weight in weights] == pytest.approx([rows / 24 for rows in sizes])


@pytest.mark.parametrize("sizes", [(12, 12), (9, 8, 8), (24, 0, 0)])
def test_shares_of_another_sum_or_without_a_row_are_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"are no shares of 24 rows among 3 ranks"):
        share_batch(24, 1, make_mesh(parallel(), 3)).resized(sizes)
