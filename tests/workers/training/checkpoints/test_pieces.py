from __future__ import annotations

import pytest
import torch

from workers.training.checkpoints.manifest import StoredPart
from workers.training.checkpoints.pieces import Region, piece_of, share_writing
from workers.training.checkpoints.reading import intersection
from workers.training.checkpoints.snapshot import Snapshot


def region(*shape: int, offset: tuple[int, ...] | None = None, whole: tuple[int, ...] | None = None) -> Region:
    return Region(whole or shape, offset or (0,) * len(shape), shape)


def test_copies_share_the_writing_by_size() -> None:
    held = {"large": region(10, 10), "middle": region(9, 9), "small": region(3, 3), "tiny": region(2)}
    first, second = share_writing([held, held])
    assert (first, second) == ({"large"}, {"middle", "small", "tiny"})


def test_each_region_of_a_tensor_is_written_by_a_rank_that_holds_it() -> None:
    upper = region(2, 4, whole=(4, 4))
    lower = region(2, 4, offset=(2, 0), whole=(4, 4))
    # Two copies of two shards each.
    written = share_writing([{"x": upper}, {"x": lower}, {"x": upper}, {"x": lower}])
    assert written == [{"x"}, {"x"}, set(), set()]


def test_a_rank_that_holds_nothing_of_a_tensor_writes_nothing_of_it() -> None:
    empty = region(0, 4, offset=(4, 0), whole=(4, 4))
    assert share_writing([{"x": region(4, 4)}, {"x": empty}]) == [{"x"}, set()]
    assert not empty.is_first


def test_a_count_is_its_own_first_region() -> None:
    assert piece_of("step", torch.tensor(3.0)).region == Region((), (), ())
    assert Region((), (), ()).is_first


@pytest.mark.parametrize(
    ("mine", "theirs", "common"),
    [
        (((0, 0), (4, 4)), ((2, 0), (2, 4)), ((slice(2, 4), slice(0, 4)), (slice(0, 2), slice(0, 4)))),
        (((2, 1), (2, 2)), ((0, 0), (3, 2)), ((slice(0, 1), slice(0, 1)), (slice(2, 3), slice(1, 2)))),
        (((0, 0), (2, 4)), ((2, 0), (2, 4)), None),
        (((0, 0), (0, 4)), ((0, 0), (2, 4)), None),
    ],
)
def test_what_two_regions_have_in_common(mine: tuple, theirs: tuple, common: object) -> None:  # type: ignore[type-arg]
    assert intersection(Region((4, 4), *mine), StoredPart("rank-0.safetensors", *theirs)) == common


def test_a_count_has_itself_in_common() -> None:
    assert intersection(Region((), (), ()), StoredPart("rank-0.safetensors", (), ())) == ((), ())


def test_a_snapshot_keeps_what_was_there_and_its_memory_is_used_again() -> None:
    weight, count = torch.arange(6.0).view(2, 3), torch.tensor(7)
    half = torch.ones(3, dtype=torch.bfloat16)
    snapshot = Snapshot(torch.device("cpu"))

    def take() -> int:
        snapshot.take([piece_of("half", half), piece_of("weight", weight), piece_of("count", count)])
        return id(snapshot._buffer)

    first = take()
    before = bytes(snapshot.data)
    weight += 1
    assert bytes(snapshot.data) == before
    assert take() == first
    assert bytes(snapshot.data) != before
    # The widest types first, so that each begins where its type may.
    assert list(snapshot.regions) == ["count", "weight", "half"]
    assert len(snapshot.header) % 8 == 0 and len(before) == 8 + 24 + 6


def test_a_snapshot_of_other_pieces_is_laid_out_anew() -> None:
    snapshot = Snapshot(torch.device("cpu"))
    snapshot.take([piece_of("weight", torch.zeros(4))])
    snapshot.take([piece_of("weight", torch.zeros(4)), piece_of("moment", torch.zeros(4))])
    assert list(snapshot.regions) == ["moment", "weight"] and len(snapshot.data) == 32
