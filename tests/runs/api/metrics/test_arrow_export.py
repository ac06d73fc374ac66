"""``series.arrow``: every point, exactly, in a stream that any reader of Arrow takes."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.test import AsyncClient

from runs.api.metrics import arrow_export
from runs.models import Run
from tests.cast import Cast
from tests.runs.api.conftest import Api
from tests.runs.api.metrics.test_curves import logged
from tests.spools import some_points

POINTS = [(1, 1700000000.1, 0.1), (1, 1700000000.2, math.nan), (2**62, 3.0, -math.inf)]


def rows(answer: Any) -> list[dict[str, Any]]:
    assert answer["Content-Type"] == "application/vnd.apache.arrow.stream"
    found: list[dict[str, Any]] = (
        pa.ipc.open_stream(io.BytesIO(b"".join(answer.streaming_content))).read_all().to_pylist()
    )
    return found


@pytest.fixture
def run(make_run: Callable[..., Run]) -> Run:
    return logged(make_run(), *POINTS)


def test_every_point_is_there_exactly(mate: Api, run: Run) -> None:
    [row] = rows(mate("GET", f"/runs/{run.pk}/series.arrow?name=train/loss"))
    assert str(list(zip(row["step"], row["time"], row["value"], strict=True))) == str(POINTS)
    assert {name: row[name] for name in ("run", "name", "labels", "attempt", "superseded")} == {
        "run": run.pk, "name": "train/loss", "labels": "{}", "attempt": 1, "superseded": 0,
    }  # fmt: skip


def test_names_labels_and_attempts_choose(mate: Api, run: Run) -> None:
    logged(run, *some_points(1, 2), name="gpu/util", node="a", gpu="0")
    logged(run, (1, 5.0, 9.0), fence=2)
    path = f"/runs/{run.pk}/series.arrow"
    [labelled] = rows(mate("GET", f"{path}?labels=%7B%22gpu%22:%220%22%7D"))
    assert (labelled["name"], labelled["labels"]) == ("gpu/util", '{"gpu": "0", "node": "a"}')
    assert {row["attempt"] for row in rows(mate("GET", f"{path}?name=train/loss"))} == {2}
    every = rows(mate("GET", f"{path}?name=train/loss&attempts=all"))
    assert {(row["attempt"], row["superseded"]) for row in every} == {(1, 1), (2, 0)}


def test_a_run_without_points_is_a_table_without_rows(mate: Api, make_run: Callable[..., Run]) -> None:
    assert rows(mate("GET", f"/runs/{make_run().pk}/series.arrow")) == []


def test_runs_come_in_one_stream(mate: Api, run: Run, make_run: Callable[..., Run]) -> None:
    other = logged(make_run(), (1, 1.0, 2.0))
    found = rows(mate("GET", f"/series.arrow?run={other.pk}&run={run.pk}"))
    assert [row["run"] for row in found] == [other.pk, run.pk]


@pytest.mark.django_db(databases="__all__", transaction=True)
async def test_under_asgi_it_comes_in_parts(
    cast: Cast, make_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_export, "BYTES_AT_ONCE", 1000)
    run = await sync_to_async(
        lambda: logged(logged(make_run(), *some_points(1, 500)), *some_points(1, 500), name="b")
    )()
    client = AsyncClient()
    await sync_to_async(client.force_login)(cast.mate)
    answer = await client.get(f"/api/v1/runs/{run.pk}/series.arrow")
    parts = [part async for part in answer.streaming_content]
    await sync_to_async(connections.close_all)()  # that thread's own, which would keep the database from being dropped
    assert len(parts) > 1
    table = pa.ipc.open_stream(io.BytesIO(b"".join(parts))).read_all()
    assert {row["name"]: len(row["step"]) for row in table.to_pylist()} == {"b": 500, "train/loss": 500}


def points_in(answer: Any) -> list[dict[str, Any]]:
    assert answer["Content-Type"] == "application/vnd.apache.parquet"
    found: list[dict[str, Any]] = pq.read_table(io.BytesIO(b"".join(answer.streaming_content))).to_pylist()
    return found


def test_parquet_has_a_row_for_each_point_in_however_many_parts(
    mate: Api, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_export, "BYTES_AT_ONCE", 1)
    logged(run, *some_points(1, 2), name="gpu/util", node="a", gpu="0")
    answer = mate("GET", f"/runs/{run.pk}/series.arrow?format=parquet&name=train/loss&name=gpu/util")
    assert f'filename="{run.pk}-train-loss-points.parquet"' in answer["Content-Disposition"]
    found = points_in(answer)
    own = [(row["step"], row["time"], row["value"]) for row in found if row["name"] == "train/loss"]
    assert str(own) == str(POINTS)
    assert {(row["run"], row["labels"], row["attempt"], row["superseded"]) for row in found} == {
        (run.pk, "{}", 1, False), (run.pk, '{"gpu": "0", "node": "a"}', 1, False),
    }  # fmt: skip


def test_parquet_of_many_runs_and_of_none(mate: Api, run: Run, make_run: Callable[..., Run]) -> None:
    other = logged(make_run(name="other"), *POINTS)
    found = points_in(mate("GET", f"/series.arrow?run={other.pk}&run={run.pk}&format=parquet"))
    assert [row["run"] for row in found] == [other.pk] * 3 + [run.pk] * 3
    assert points_in(mate("GET", f"/runs/{make_run(name='silent').pk}/series.arrow?format=parquet")) == []


def test_without_pyarrow_parquet_is_refused_in_words(mate: Api, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_export, "find_spec", lambda _: None)
    refused = mate("GET", f"/runs/{run.pk}/series.arrow?format=parquet")
    assert refused.status_code == 501 and "Parquet needs pyarrow" in refused.json()["detail"]
    assert mate("GET", f"/runs/{run.pk}/series.arrow?format=feather").status_code == 422
