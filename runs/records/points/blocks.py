"""Small pieces of many series as one row. Pure.

A block holds axes (steps and times, shared by the series that were logged together) and, for each piece, its series,
its axis and its values. All axes lie in two columns, all values in a third.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from runs.records.metrics.codec import BadSegment, Columns, Floats, Steps, narrowed, pack_all, unpack_all
from runs.records.points.tables import PointMatrix

Part = tuple[int, Columns]  # series id, points


def encode_block(matrices: Sequence[tuple[list[int], PointMatrix]]) -> bytes:
    """Return matrices, each with the ids of its series, as bytes: a part for each series, in their order."""
    widths = [len(ids) for ids, _ in matrices]
    return pack_all(
        np.array([pk for ids, _ in matrices for pk in ids], np.int64),
        np.repeat(np.arange(len(matrices), dtype=np.int32), widths),
        np.array([matrix.steps.size for _, matrix in matrices], np.int32),
        np.concatenate([matrix.steps for _, matrix in matrices]),
        np.concatenate([matrix.times for _, matrix in matrices]),
        narrowed(np.concatenate([matrix.values.ravel() for _, matrix in matrices])),
    )


def decode_block(data: bytes, wanted: set[int] | None = None) -> Iterator[Part]:
    """Yield the parts that encode_block() was given, of the ``wanted`` series only. Raises BadSegment."""
    yield from _parts(_opened(data), wanted)


def decode_blocks(blocks: Sequence[bytes]) -> Iterator[tuple[int, Part]]:
    """Yield the parts of the blocks, each with the place of its block. Neighbours with the same series on the same axes
    come as one block, in the place of the last: a run logs the same again and again. Raises BadSegment."""
    waiting: list[_Opened] = []
    for place, data in enumerate(blocks):
        opened = _opened(data)
        if waiting and not waiting[0].is_like(opened):
            yield from ((place - 1, part) for part in _parts(_as_one(waiting)))
            waiting = []
        waiting.append(opened)
    if waiting:
        yield from ((len(blocks) - 1, part) for part in _parts(_as_one(waiting)))


class _Opened(NamedTuple):
    """A block's columns: of each part its series and its axis, of each axis its length, then the numbers."""

    ids: Steps
    which: NDArray[np.int32]
    sizes: NDArray[np.int32]
    steps: Steps
    times: Floats
    values: Floats

    def is_like(self, other: "_Opened") -> bool:
        return np.array_equal(self.ids, other.ids) and np.array_equal(self.which, other.which)


def _opened(data: bytes) -> _Opened:
    ids, which, sizes, steps, times, values = unpack_all(data, 6)
    fits = ids.size == which.size and steps.size == times.size == sizes.sum() and values.size == sizes[which].sum()
    if not fits:
        raise BadSegment("the columns of a block do not fit together")
    return _Opened(ids, which, sizes, steps, times, values.astype(np.float64, copy=False))


def _as_one(blocks: list[_Opened]) -> _Opened:
    """Return blocks of the same series on the same axes as one, in order and sorted by part."""
    first = blocks[0]
    if len(blocks) == 1:
        return first
    along = _in_turn([block.sizes for block in blocks])
    by_part = _in_turn([block.sizes[block.which] for block in blocks])
    return first._replace(
        sizes=np.sum([block.sizes for block in blocks], axis=0),
        steps=np.concatenate([block.steps for block in blocks])[along],
        times=np.concatenate([block.times for block in blocks])[along],
        values=np.concatenate([block.values for block in blocks])[by_part],
    )


def _in_turn(lengths: list[NDArray[np.int32]]) -> NDArray[np.int64]:
    return np.argsort(np.concatenate([np.repeat(np.arange(own.size), own) for own in lengths]), kind="stable")


def _parts(block: _Opened, wanted: set[int] | None = None) -> Iterator[Part]:
    sizes, which = block.sizes.tolist(), block.which.tolist()
    ends = np.cumsum(block.sizes).tolist()
    value_ends = np.cumsum(block.sizes[block.which]).tolist()
    axes: dict[int, tuple[Steps, Floats]] = {}  # the same objects for all that share them
    for series_id, axis, end in zip(block.ids.tolist(), which, value_ends, strict=True):
        if wanted is not None and series_id not in wanted:
            continue
        if axis not in axes:
            where = slice(ends[axis] - sizes[axis], ends[axis])
            axes[axis] = block.steps[where], block.times[where]
        yield series_id, Columns(*axes[axis], block.values[end - sizes[axis] : end])
