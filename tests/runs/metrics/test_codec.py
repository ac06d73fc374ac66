from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from runs.metrics.codec import BadSegment, Columns, decode, decode_lines, encode, encode_lines

sizes = st.integers(0, 40)
any_float = st.floats(width=64)
columns = sizes.flatmap(
    lambda size: st.builds(
        Columns,
        arrays.arrays(np.int64, size, elements=st.integers(-(2**63), 2**63 - 1)),
        arrays.arrays(np.float64, size, elements=any_float),
        arrays.arrays(np.float64, size, elements=st.one_of(any_float, st.floats(width=32))),
    )
)


def is_same(one: np.ndarray, other: np.ndarray) -> bool:
    """Bit for bit, but for what a NaN carries."""
    nan = np.isnan(one)
    return bool(np.array_equal(nan, np.isnan(other)) and one[~nan].tobytes() == other[~nan].tobytes())


@given(columns)
def test_any_columns_come_back_exactly(given_columns: Columns) -> None:
    steps, times, values = decode(encode(*given_columns))
    assert steps.tolist() == given_columns.steps.tolist()
    assert is_same(times, given_columns.times)
    assert is_same(values, given_columns.values)


def test_even_steps_and_times_with_float32_values_take_few_bytes() -> None:
    count = 1000
    noise = np.random.default_rng(0).normal(size=count).astype(np.float32).astype(np.float64)
    data = encode(np.arange(count, dtype=np.int64), 1.7e9 + np.arange(count) * 0.25, noise)
    assert len(data) < 4.5 * count


def test_what_is_not_finite_stays_what_it_is() -> None:
    values = np.array([math.nan, math.inf, -math.inf, -0.0, 1e308])
    back = decode(encode(np.arange(5), np.zeros(5), values)).values
    assert math.isnan(back[0])
    assert back[1:].tobytes() == values[1:].tobytes()


@given(st.lists(st.tuples(st.floats(allow_nan=False), st.text())))
def test_any_lines_come_back_exactly(lines: list[tuple[float, str]]) -> None:
    assert decode_lines(encode_lines(lines)) == lines


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="2 steps, 1 times"):
        encode(np.arange(2), np.zeros(1), np.zeros(2))


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: b"\x09" + data[1:], lambda data: data[:-3]])
def test_damaged_bytes_are_refused(damage: object) -> None:
    data = encode(np.arange(9), np.zeros(9), np.ones(9))
    with pytest.raises(BadSegment):
        decode(damage(data))  # type: ignore[operator]
