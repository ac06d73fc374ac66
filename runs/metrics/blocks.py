"""Small pieces of many series as one row. Pure.

A block holds axes (steps and times, shared by the series that were logged together) and, for each piece, its series,
its axis and its values. All axes lie in two columns, all values in a third.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from runs.metrics.codec import BadSegment, Columns, Floats, Steps, narrowed, pack_all, unpack_all
from runs.metrics.sheets import Sheet

Part = tuple[int, Columns]  # series id, points


def encode_block(parts: Iterable[Part]) -> bytes:
    """Return the parts as bytes, in their order. Parts whose steps and times are the same objects share them."""
    axes: dict[tuple[int, int], int] = {}
    steps, times, values = [], [], []
    ids, which = [], []
    for series_id, columns in parts:
        key = id(columns.steps), id(columns.times)
        if key not in axes:
            axes[key] = len(axes)
            steps.append(columns.steps)
            times.append(columns.times)
        ids.append(series_id)
        which.append(axes[key])
        values.append(columns.values)
    return pack_all(
        np.array(ids, np.int64),
        np.array(which, np.int32),
        np.array([axis.size for axis in steps], np.int32),
        np.concatenate(steps),
        np.concatenate(times),
        narrowed(np.concatenate(values)),
    )


def encode_sheets(sheets: Sequence[tuple[list[int], Sheet]]) -> bytes:
    """Return sheets, each with the ids of its series, as encode_block() would return their series one by one."""
    widths = [len(ids) for ids, _ in sheets]
    return pack_all(
        np.array([pk for ids, _ in sheets for pk in ids], np.int64),
        np.repeat(np.arange(len(sheets), dtype=np.int32), widths),
        np.array([sheet.steps.size for _, sheet in sheets], np.int32),
        np.concatenate([sheet.steps for _, sheet in sheets]),
        np.concatenate([sheet.times for _, sheet in sheets]),
        narrowed(np.concatenate([sheet.values.ravel() for _, sheet in sheets])),
    )


def decode_block(data: bytes, wanted: set[int] | None = None) -> Iterator[Part]:
    """Yield the parts that encode_block() was given, of the ``wanted`` series only. Raises BadSegment."""
    ids, which, sizes, steps, times, values = unpack_all(data, 6)
    ends = np.cumsum(sizes)
    lengths = sizes[which]
    value_ends = np.cumsum(lengths)
    if ids.size != which.size or steps.size != times.size or values.size != value_ends[-1] or steps.size != ends[-1]:
        raise BadSegment("the columns of a block do not fit together")
    values = values.astype(np.float64, copy=False)
    axes: dict[int, tuple[Steps, Floats]] = {}  # the same objects for all that share them
    for place, series_id in enumerate(ids.tolist()):
        if wanted is not None and series_id not in wanted:
            continue
        axis = int(which[place])
        if axis not in axes:
            where = slice(int(ends[axis] - sizes[axis]), int(ends[axis]))
            axes[axis] = steps[where], times[where]
        own = values[int(value_ends[place] - lengths[place]) : int(value_ends[place])]
        yield series_id, Columns(*axes[axis], own)
