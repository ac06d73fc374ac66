from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.test import AsyncClient

from runs.api.metrics import csv_export
from runs.models import Run
from tests.cast import Cast
from tests.runs.api.conftest import Api
from tests.runs.api.metrics.test_curves import logged
from tests.spools import some_points


def rows(answer: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode(), newline="")))


@pytest.fixture
def run(make_run: Callable[..., Run]) -> Run:
    return logged(make_run(), (1, 1700000000.1, 0.1), (1, 1700000000.2, math.nan), (2**62, 3.0, -math.inf))


def test_every_point_is_a_row_that_reads_back_exactly(mate: Api, run: Run) -> None:
    answer = mate("GET", f"/runs/{run.pk}/series.csv?name=train/loss")
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert answer["Content-Disposition"] == f'attachment; filename="{run.pk}-train-loss-points.csv"'
    found = rows(answer)
    assert list(found[0]) == ["run", "name", "labels", "attempt", "step", "time", "value"]
    assert [tuple(row.values())[3:] for row in found] == [
        ("1", "1", "1700000000.1", "0.1"),
        ("1", "1", "1700000000.2", "NaN"),
        ("1", str(2**62), "3.0", "-Infinity"),
    ]
    assert {(row["run"], row["name"], row["labels"]) for row in found} == {(run.pk, "train/loss", "")}


def test_names_labels_and_attempts_choose(mate: Api, run: Run) -> None:
    logged(run, *some_points(1, 2), name="gpu/util", node="a", gpu="0")
    logged(run, (1, 5.0, 9.0), fence=2)
    path = f"/runs/{run.pk}/series.csv"
    found = rows(mate("GET", f"{path}?labels=%7B%22gpu%22:%220%22%7D"))
    assert [(row["name"], row["labels"]) for row in found] == [("gpu/util", '{"gpu": "0", "node": "a"}')] * 2
    assert [row["attempt"] for row in rows(mate("GET", f"{path}?name=train/loss"))] == ["2"]
    every = rows(mate("GET", f"{path}?name=train/loss&attempts=all"))
    assert sorted(row["attempt"] for row in every) == ["1", "1", "1", "2"]
    assert len(rows(mate("GET", path))) == 3
    assert rows(mate("GET", f"{path}?name=none")) == []


def test_runs_that_are_compared_come_in_one_file_in_the_order_in_which_they_are_named(
    mate: Api, run: Run, make_run: Callable[..., Run]
) -> None:
    other = logged(make_run(), (7, 3.0, 0.25))
    answer = mate("GET", f"/series.csv?run={other.pk}&run={run.pk}&name=train/loss")
    assert answer["Content-Disposition"] == 'attachment; filename="2-runs-train-loss-points.csv"'
    assert [(row["run"], row["step"]) for row in rows(answer)] == [
        (other.pk, "7"),
        (run.pk, "1"),
        (run.pk, "1"),
        (run.pk, str(2**62)),
    ]


def test_a_file_of_many_runs_needs_the_right_to_see_each(mate: Api, as_: Any, run: Run) -> None:
    assert mate("GET", f"/series.csv?run={run.pk}&run=nothing").status_code == 404
    assert mate("GET", "/series.csv").status_code == 422
    assert mate("GET", "/series.csv?" + "&".join(["run=x"] * 101)).status_code == 422


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@x", "\t=1", "\n=1"])
def test_a_spreadsheet_takes_names_for_text(mate: Api, run: Run, name: str) -> None:
    logged(run, (1, 1.0, 1.0), name=name)
    assert [row["name"] for row in rows(mate("GET", f"/runs/{run.pk}/series.csv")) if row["name"] != "train/loss"] == [
        f"'{name}"
    ]


def test_a_name_with_everything_in_it_stays_one_cell(mate: Api, run: Run) -> None:
    name = 'a,"b"\r\nc'
    logged(run, (1, 1.0, 1.0), name=name, label=name)
    first = rows(mate("GET", f"/runs/{run.pk}/series.csv"))[0]
    assert (first["name"], first["step"]) == (name, "1")


def test_bad_labels_and_attempts_are_refused(as_: Any, run: Run) -> None:
    path = f"/runs/{run.pk}/series.csv"
    assert as_("mate")("GET", f"{path}?labels=[]").status_code == 422
    assert as_("mate")("GET", f"{path}?attempts=some").status_code == 422


@pytest.mark.django_db(databases="__all__", transaction=True)
async def test_the_server_sends_it_while_it_reads(
    cast: Cast, make_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_export, "ROWS_AT_ONCE", 10)
    api = await sync_to_async(Api)(cast.viewer)
    run = await sync_to_async(lambda: logged(make_run(), *some_points(1, 25)))()
    answer: Any = await AsyncClient().get(f"/api/v1/runs/{run.pk}/series.csv", headers=api.headers)
    parts = [part async for part in answer.streaming_content]
    assert [part.count(b"\n") for part in parts] == [1, 10, 10, 5]
    await sync_to_async(connections.close_all)()  # of the thread that read: the database is dropped after the test
