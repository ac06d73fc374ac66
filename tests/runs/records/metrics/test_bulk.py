"""Rows that come by the thousand are the rows that the ORM would have made."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from django.db import DataError, IntegrityError

from runs.records.metrics import bulk
from runs.records.metrics.models import Axis, Block, Segment, Series, Telemetry

pytestmark = pytest.mark.django_db(databases="__all__")

DATA = bytes(range(256))
BLOCK = ("run_id", "attempt", "cursor", "count", "data")


def test_inserted_rows_are_there_with_every_byte() -> None:
    bulk.insert(Block, BLOCK, [("run1", 1, 2**62, number, DATA) for number in range(3)])
    bulk.insert(Block, BLOCK, [])
    found = [(row.run_id, row.cursor, row.count, bytes(row.data)) for row in Block.objects.order_by("count")]
    assert found == [("run1", 2**62, number, DATA) for number in range(3)]


def test_every_kind_of_column_is_taken() -> None:
    series = Series.objects.create(run_id="run1", name="x")
    axis = Axis.objects.create(run_id="run1", count=1, data=b"")
    names = (
        "series_id", "axis_id", "attempt", "cursor", "count", "first_step", "last_step", "first_time", "last_time",
        "is_sealed", "base", "data",
    )  # fmt: skip
    bulk.insert(Segment, names, [(series.pk, axis.pk, 1, 2, 3, -(2**63), 2**63 - 1, 0.1, 1e300, True, 62, DATA)])
    row = Segment.objects.get(series=series, axis=axis)
    assert (row.first_step, row.last_step, row.first_time, row.last_time) == (-(2**63), 2**63 - 1, 0.1, 1e300)
    assert (row.is_sealed, row.base, bytes(row.data)) == (True, 62, DATA)


def test_changed_rows_are_changed_and_no_others() -> None:
    for number in range(3):
        Telemetry.objects.create(run_id=f"run{number}")
    at = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    names = ("cursor", "step", "troubles", "last_record_at")
    changes = [(number, None, json.dumps({"gap": number}), bulk.time_value(at), f"run{number}") for number in range(2)]
    bulk.update(Telemetry, names, changes)
    bulk.update(Telemetry, ("step",), [(7, "run0")])
    bulk.update(Telemetry, ("step",), [])
    found = Telemetry.objects.order_by("run_id").values_list("cursor", "step", "troubles", "last_record_at")
    assert list(found) == [(0, 7, {"gap": 0}, at), (1, None, {"gap": 1}, at), (0, None, {}, None)]


def test_what_the_database_refuses_is_said_in_djangos_words() -> None:
    with pytest.raises((DataError, IntegrityError)):
        bulk.insert(Block, BLOCK, [("run1", 1, 1, None, DATA)])
