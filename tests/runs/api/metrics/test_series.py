from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.test import AsyncClient, Client

from runs import actions
from runs.ingest.commit import Source, commit
from runs.ingest.validation.records import incoming
from runs.models import Run, User
from tests.cast import Cast
from tests.spools import Spool, some_points

pytestmark = pytest.mark.django_db(databases="__all__")

Get = Callable[..., Any]


@pytest.fixture
def run(make_run: Callable[..., Run]) -> Run:
    run = make_run()
    spool = Spool()
    frames = spool.points(some_points(1, 100)) + spool.points(some_points(1, 2), "gpu/util", gpu="0")
    frames += spool.logs([(1.0, "hello"), (2.0, "<script>")], rank=0)
    commit(run.pk, fence=1, source=Source("node1", "node-a"), batch=incoming(frames))
    return run


@pytest.fixture
def get(cast: Cast, run: Run, client: Client) -> Get:
    def fetch(path: str, query: dict[str, Any] | None = None, user: User = cast.viewer) -> Any:
        _, secret = actions.create_token(actor=user, name="test", expires_at=None)
        return client.get(f"/api/v1/runs/{run.pk}/{path}", query or {}, headers={"Authorization": f"Bearer {secret}"})

    return fetch


def test_the_series_of_a_run_are_listed(get: Get) -> None:
    answer = get("series").json()
    assert [(item["name"], item["labels"], item["count"], item["last"]) for item in answer["items"]] == [
        ("gpu/util", {"gpu": "0"}, 2, 2.0),
        ("train/loss", {}, 100, 100.0),
    ]
    assert answer["next"] is None


def test_points_come_raw_or_in_buckets(get: Get) -> None:
    answer = get("series/data", {"name": "train/loss", "from": 3, "to": 4}).json()
    assert answer["cursor"] == 1
    assert [(part["kind"], part["step"]) for part in answer["series"]] == [("raw", [3, 4])]
    (part,) = get("series/data", {"name": "train/loss", "points": 10, "x": "time"}).json()["series"]
    assert part["kind"] == "buckets"
    assert sum(part["count"]) == 100
    (part,) = get("series/data", {"name": ["gpu/util", "train/loss"], "labels": '{"gpu": "0"}'}).json()["series"]
    assert part["name"] == "gpu/util"


@pytest.mark.parametrize(
    "query",
    [
        {"x": "rank"},
        {"points": 1},
        {"points": 10_001},
        {"from": "now"},
        {"to": "nan"},
        {"labels": "gpu"},
        {"labels": "[]"},
    ],
    ids=str,
)
def test_a_question_that_makes_no_sense_is_refused(get: Get, query: dict[str, Any]) -> None:
    answer = get("series/data", query)
    assert answer.status_code == 422
    assert answer["Content-Type"] == "application/problem+json"


def test_lines_are_listed_and_downloaded(get: Get) -> None:
    page = get("logs", {"limit": 1}).json()
    assert [item["text"] for item in page["items"]] == ["hello"]
    page = get("logs", {"limit": 1, "after": page["next"]}).json()
    assert [item["text"] for item in page["items"]] == ["<script>"]
    assert page["next"] is None
    assert [item["text"] for item in get("logs", {"q": "HELL"}).json()["items"]] == ["hello"]
    assert [item["text"] for item in get("logs", {"tail": "true", "limit": 1}).json()["items"]] == ["<script>"]

    answer = get("logs/download")
    assert b"".join(answer.streaming_content).endswith(b"rank 0 stdout: <script>\n")
    assert answer["Content-Type"].startswith("text/plain")
    assert answer["Content-Disposition"].startswith("attachment")
    assert answer["X-Content-Type-Options"] == "nosniff"


def test_a_cursor_that_is_none_is_refused(get: Get) -> None:
    assert get("logs", {"after": "x"}).status_code == 422


@pytest.mark.django_db(databases="__all__", transaction=True)
async def test_a_long_log_is_sent_while_it_is_read_by_the_server_too(cast: Cast, make_run: Callable[..., Run]) -> None:
    run = await sync_to_async(make_run)()
    lines = [(float(second), f"line {second}") for second in range(5000)]
    frame = Spool().logs(lines)
    await sync_to_async(commit)(run.pk, fence=1, source=Source("node1", "node-a"), batch=incoming(frame))
    _, secret = await sync_to_async(actions.create_token)(actor=cast.viewer, name="test", expires_at=None)
    path = f"/api/v1/runs/{run.pk}/logs/download"
    answer = await AsyncClient().get(path, headers={"Authorization": f"Bearer {secret}"})
    parts = [part async for part in answer.streaming_content]
    assert len(parts) == 3
    assert b"".join(parts).count(b"\n") == 5000
    await sync_to_async(connections.close_all)()  # of the thread that read: the database is dropped after the test
