from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from runs.records.metrics.codec import BadSegment, Columns, decode_axis, decode_values, encode_axis, encode_values
from runs.records.points.blocks import decode_block
from tests.blocks import block_of

any_float = st.floats(width=64)
sizes = st.integers(0, 40)
whole_numbers = st.integers(-(2**63), 2**63 - 1)


def columns_of(size: int) -> st.SearchStrategy[Columns]:
    return st.builds(
        Columns,
        arrays.arrays(np.int64, size, elements=whole_numbers),
        arrays.arrays(np.float64, size, elements=any_float),
        arrays.arrays(np.float64, size, elements=st.one_of(any_float, st.floats(width=32))),
    )


def is_same(one: np.ndarray, other: np.ndarray) -> bool:
    """Bit for bit, but for what a NaN carries."""
    nan = np.isnan(one)
    return bool(np.array_equal(nan, np.isnan(other)) and one[~nan].tobytes() == other[~nan].tobytes())


def is_same_points(one: Columns, other: Columns) -> bool:
    return one.steps.tolist() == other.steps.tolist() and all(map(is_same, one[1:], other[1:]))


@given(sizes.flatmap(columns_of))
def test_any_columns_come_back_exactly(columns: Columns) -> None:
    axis = decode_axis(encode_axis(columns.steps, columns.times))
    assert is_same_points(Columns(*axis, decode_values(encode_values(columns.values))), columns)


@given(st.lists(st.tuples(st.integers(1, 2**62), st.integers(1, 20).flatmap(columns_of)), min_size=1, max_size=5))
def test_any_block_comes_back_exactly(parts: list[tuple[int, Columns]]) -> None:
    first = parts[0][1]
    shared = [parts[0], (7, Columns(first.steps, first.times, first.values[::-1].copy())), *parts[1:]]
    back = list(decode_block(block_of(shared)))
    assert [series_id for series_id, _ in back] == [series_id for series_id, _ in shared]
    assert all(is_same_points(one, other) for (_, one), (_, other) in zip(back, shared, strict=True))
    assert back[0][1].steps is back[1][1].steps, "who shared an axis shares it again"
    wanted = {parts[-1][0]}
    assert {series_id for series_id, _ in decode_block(block_of(parts), wanted)} == wanted


def test_noisy_float32_values_at_uneven_times_take_few_bytes() -> None:
    generator = np.random.default_rng(0)
    values = generator.normal(2, 0.1, 1000).astype(np.float32).astype(np.float64)
    axis = encode_axis(np.arange(1000), 1.7e9 + np.arange(1000) * 0.25 + generator.normal(0, 1e-3, 1000))
    assert len(encode_values(values)) < 3 * 1000
    assert len(axis) < 2.5 * 1000


def test_what_is_not_finite_stays_what_it_is() -> None:
    values = np.array([math.nan, math.inf, -math.inf, -0.0, 1e308] * 3)
    back = decode_values(encode_values(values))
    assert math.isnan(back[0])
    assert back[1:5].tobytes() == values[1:5].tobytes()


def test_axes_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="2 steps and 1 times"):
        encode_axis(np.arange(2), np.zeros(1))


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: b"\x09" + data[1:], lambda data: data[:-3]])
def test_damaged_bytes_are_refused(damage: Callable[[bytes], bytes]) -> None:
    steps = np.arange(99)
    with pytest.raises(BadSegment):
        decode_values(damage(encode_values(np.arange(99.0) ** 3)))
    with pytest.raises(BadSegment):
        decode_axis(damage(encode_axis(steps, steps / 7)))
    with pytest.raises(BadSegment):
        list(decode_block(damage(block_of([(1, Columns(steps, steps / 7, steps / 3))]))))
