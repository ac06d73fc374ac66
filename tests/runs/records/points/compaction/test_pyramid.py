from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runs.records.metrics.codec import BadSegment, Columns
from runs.records.points.compaction.pyramid import (
    LADDER,
    Buckets,
    base_of,
    bucketed,
    combine,
    decode,
    encode,
    regrouped,
    top_of,
)

whole = st.integers(-(2**63), 2**63 - 1)
number = st.one_of(st.floats(-1e200, 1e200), st.sampled_from([math.nan, math.inf, -math.inf, -0.0]))
rows = st.lists(st.tuples(st.one_of(whole, st.integers(-9, 9)), st.sampled_from([1.0, 2.0]), number), min_size=1)
quick = settings(max_examples=60, deadline=None)


def made(rows: list[tuple[int, float, float]], level: int, cursor: int = 1) -> Buckets:
    ordered = sorted(rows, key=lambda row: row[:2])
    steps = np.array([row[0] for row in ordered], np.int64)
    columns = Columns(steps, np.array([row[1] for row in ordered]), np.array([row[2] for row in ordered]))
    return bucketed(columns, steps >> level, cursor)


def is_same(one: Buckets, other: Buckets) -> bool:
    exact = set(Buckets._fields) - {"total", "rest"}
    return all(
        np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True) for name in exact
    ) and np.allclose(one.mean, other.mean, rtol=1e-14, atol=0, equal_nan=True)


@quick
@given(rows, st.sampled_from(LADDER))
def test_a_bucket_is_what_its_points_come_to(rows: list[tuple[int, float, float]], level: int) -> None:
    buckets = made(rows, level)
    assert buckets.key.tolist() == sorted({step // 2**level for step, _, _ in rows})
    for index, key in enumerate(buckets.key.tolist()):
        own = sorted((row for row in rows if row[0] // 2**level == key), key=lambda row: row[:2])
        values = np.array([row[2] for row in own])
        numbers = values[~np.isnan(values)]
        assert buckets.num_points[index] == len(own)
        assert buckets.num_nan[index] == len(own) - numbers.size
        assert np.array_equal(buckets.min[index], np.fmin.reduce(values), equal_nan=True)
        assert np.array_equal(buckets.max[index], np.fmax.reduce(values), equal_nan=True)
        assert np.array_equal(buckets.last[index], values[-1], equal_nan=True)
        assert (buckets.last_step[index], buckets.last_time[index]) == own[-1][:2]
        assert (buckets.min_time[index], buckets.max_time[index]) == (
            min(row[1] for row in own),
            max(row[1] for row in own),
        )
        if numbers.size and np.isfinite(numbers).all():
            assert math.isclose(buckets.mean[index], math.fsum(numbers) / numbers.size, rel_tol=1e-14)


@quick
@given(st.lists(rows, min_size=1, max_size=5), st.sampled_from(LADDER), st.randoms(use_true_random=False))
def test_parts_add_up_in_any_order_to_what_the_whole_comes_to(parts: list, level: int, random: object) -> None:
    buckets = [made(rows, level, cursor) for cursor, rows in enumerate(parts, 1)]
    together = combine(buckets)
    random.shuffle(buckets)  # type: ignore[attr-defined]
    assert is_same(combine(buckets), together)
    in_two = [combine(buckets[: len(buckets) // 2 + 1]), *buckets[len(buckets) // 2 + 1 :]]
    assert is_same(combine(in_two), together)
    # Later parts come after earlier ones where step and time are the same, as points that arrive do.
    assert is_same(combine(buckets)._replace(last_cursor=together.last_cursor), together)
    whole = made([row for rows in parts for row in rows], level)
    assert is_same(together._replace(last_cursor=whole.last_cursor), whole)
    coarser = min(62, level + 4)
    assert is_same(
        regrouped(together, together.key >> (coarser - level))._replace(last_cursor=np.zeros(0)),
        made([row for rows in parts for row in rows], coarser)._replace(last_cursor=np.zeros(0)),
    )


def test_a_mean_of_a_million_numbers_that_cancel_is_exact_after_many_combinations() -> None:
    generator = np.random.default_rng(4)
    values = generator.normal(0, 1, 2**20) * 10.0 ** generator.integers(-8, 9, 2**20)
    steps = np.arange(values.size)
    buckets = bucketed(Columns(steps, np.zeros(values.size), values), steps >> 2, 1)
    for _ in range(9):
        buckets = regrouped(buckets, buckets.key >> 2)
    assert buckets.size == 1
    assert math.isclose(buckets.mean[0], math.fsum(values) / values.size, rel_tol=1e-15)


@quick
@given(rows, st.sampled_from(LADDER))
def test_buckets_come_back_exactly(rows: list[tuple[int, float, float]], level: int) -> None:
    buckets = made(rows, level)
    back = decode(encode(buckets))
    assert all(np.array_equal(one, other, equal_nan=True) for one, other in zip(back, buckets, strict=True))
    assert [column.dtype for column in back] == [column.dtype for column in buckets]
    with pytest.raises(BadSegment):
        decode(encode(buckets)[:-1])


def test_dense_steps_have_fine_levels_and_sparse_ones_coarse_ones() -> None:
    assert base_of(np.zeros(100, np.int64)) == 2
    assert base_of(np.arange(1000)) == 6
    assert base_of(np.arange(1000) * 10) == 10
    assert base_of(np.array([-(2**63), 2**63 - 1])) == 62


def test_the_top_is_as_coarse_as_the_range_needs() -> None:
    assert top_of(0, 4000, 0) == 2
    assert top_of(-50_000, 50_000, 0) == 10
    assert top_of(0, 4000, 14) == 14
    assert top_of(-(2**63), 2**63 - 1, 0) == 54
