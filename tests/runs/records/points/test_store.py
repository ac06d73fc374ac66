from __future__ import annotations

import math

import numpy as np
import pytest
from django.db import transaction
from hypothesis import given
from hypothesis import strategies as st

from runs.records.metrics.bulk import IDS_PER_QUERY
from runs.records.metrics.models import Series
from runs.records.points import store
from runs.records.points.store import SeriesTable, Summary, fold
from runs.records.points.tables import PointMatrix, SeriesGroup

Batch = tuple[int, list[tuple[int, float, float]]]  # attempt, points
points = st.lists(st.tuples(st.integers(-3, 3), st.sampled_from((0.0, 1.0, 2.0)), st.floats(width=64)), min_size=1)


def matrix(parts: list[tuple[int, float, float]], *names: str) -> PointMatrix:
    steps, times, values = (np.array(column) for column in zip(*parts, strict=True))
    head = SeriesGroup(names or ("x",), {})
    return PointMatrix("p", 1, head, steps.astype(np.int64), times, np.tile(values, (len(head.names), 1)))


@given(st.lists(st.tuples(st.integers(1, 3), points), min_size=1, max_size=5))
def test_a_summary_is_what_one_would_say_of_all_points_together(batches: list[Batch]) -> None:
    row = Summary(1)
    for attempt, some in batches:
        fold([row], attempt, matrix(some))
    everything = [(attempt, *point) for attempt, some in batches for point in some]
    finite = [value for *_, value in everything if math.isfinite(value)]
    assert row.count == len(everything)
    assert row.first_step == min(step for _, step, _, _ in everything)
    assert (row.min, row.max) == ((min(finite), max(finite)) if finite else (None, None))
    assert row.firsts == {
        str(attempt): min(step for other, step, _, _ in everything if other == attempt)
        for attempt in {attempt for attempt, *_ in everything}
    }
    newest = max(range(len(everything)), key=lambda place: (*everything[place][:3], place))
    attempt, step, at, value = everything[newest]
    assert (row.last_attempt, row.last_step, row.last_time) == (attempt, step, at)
    assert (row.last, row.last_text) == ((value, "") if math.isfinite(value) else (None, store.word_of(value)))


@pytest.mark.django_db(databases="__all__")
def test_rows_are_made_read_and_saved() -> None:
    for number in range(2):
        table = SeriesTable("run1")
        part = matrix([(number, 1.0, 5.0 * number)], "a", "b")
        table.find([part.head])
        rows = [table.rows[key] for key in part.head.keys]
        fold(rows, 1, part)
        store.save(rows)
    found = Series.objects.order_by("name").values_list(
        "name", "count", "first_step", "last_step", "min", "max", "firsts"
    )
    assert list(found) == [(name, 2, 0, 1, 0.0, 5.0, {"1": 0}) for name in ("a", "b")]


@pytest.mark.django_db(databases="__all__")
def test_no_more_series_are_made_than_a_run_may_have() -> None:
    first = SeriesTable("run1", at_most=3)
    first.find([SeriesGroup(("a", "b"), {})])
    second = SeriesTable("run1", at_most=3)
    second.find([SeriesGroup(("b", "c", "d"), {}), SeriesGroup(("a",), {"rank": "1"})])
    assert Series.objects.count() == 3
    assert sorted(second.rows) == [("a", "{}"), ("b", "{}"), ("c", "{}")]
    SeriesTable("run2", at_most=3).find([SeriesGroup(("x",), {})])
    assert Series.objects.filter(run_id="run2").count() == 1


@pytest.mark.django_db(databases="__all__")
def test_more_names_than_a_statement_takes_are_read_in_parts() -> None:
    names = tuple(f"n{number}" for number in range(IDS_PER_QUERY + 3))
    with transaction.atomic():
        SeriesTable("run1").find([SeriesGroup(names, {})])
    again = SeriesTable("run1")
    again.find([SeriesGroup(names, {})])
    assert len(again.rows) == len(names) == Series.objects.count()
