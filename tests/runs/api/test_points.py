from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from runs import actions
from runs.ingest.commit import Source, commit
from runs.ingest.records import incoming
from runs.metrics import read
from runs.metrics.models import Producer
from runs.models import Run, User
from tests.cast import Cast
from tests.spools import Spool, some_points

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.usefixtures("valkey")]

PRODUCER = uuid.UUID(int=7).hex
Post = Callable[..., tuple[int, dict[str, Any]]]


def token_of(user: User) -> str:
    _, secret = actions.create_token(actor=user, name="test", expires_at=None)
    return secret


@pytest.fixture
def run(make_run: Callable[..., Run]) -> Run:
    return make_run()


@pytest.fixture
def post(cast: Cast, run: Run, client: Client) -> Post:
    """``post(sequence, *points, user=…, **changes of the body)`` -> status, answer."""

    def send(sequence: int, *points: dict[str, Any], user: User = cast.mate, **changes: Any) -> tuple[int, Any]:
        body = {"producer": PRODUCER, "sequence": sequence, "points": list(points), **changes}
        answer = client.post(
            f"/api/v1/runs/{run.pk}/points",
            json.dumps(body),
            content_type="application/json",
            headers={"Authorization": f"Bearer {token_of(user)}"},
        )
        return answer.status_code, answer.json()

    return send


def point(step: int, value: object = 1.0, **changes: object) -> dict[str, object]:
    return {"name": "loss", "step": step, "value": value, **changes}


def test_points_are_stored_and_the_watermark_answered(post: Post, run: Run) -> None:
    assert post(1, point(1), point(2, "NaN", time=5.0), point(1, 3, name="gpu", labels={"gpu": "0"})) == (
        200,
        {"watermark": 1},
    )
    assert post(2, point(3), end=True) == (200, {"watermark": 2})
    loss = read.series_data(run.pk, ["loss"])["series"]
    assert [part["value"] for part in loss] == [[1.0, "NaN", 1.0]]
    assert loss[0]["time"][1] == 5.0
    row = Producer.objects.get()
    assert (row.role, row.end_sequence, row.attempt) == ("rest", 2, run.fence)


def test_the_same_batch_again_changes_nothing(post: Post, run: Run) -> None:
    for _ in range(3):
        assert post(1, point(1)) == (200, {"watermark": 1})
    assert read.series_data(run.pk, ["loss"])["series"][0]["step"] == [1]


def test_a_batch_behind_a_gap_is_refused_and_told_what_is_expected(post: Post, run: Run) -> None:
    post(1, point(1))
    status, problem = post(3, point(3))
    assert (status, problem["expected"], problem["status"]) == (409, 2, 409)
    assert read.gaps(run.pk) == []


def test_the_name_of_a_rank_cannot_be_taken(post: Post, run: Run) -> None:
    spool = Spool(PRODUCER)
    commit(run.pk, fence=1, source=Source("node1", "node-a"), batch=incoming(spool.points(some_points(1, 1))))
    assert post(2, point(5))[0] == 409
    assert read.series_data(run.pk, ["loss"])["series"] == []


def test_a_rank_cannot_take_the_name_of_a_rest_producer(post: Post, run: Run) -> None:
    post(1, point(1))
    frames = Spool(PRODUCER)
    frames.begin()
    committed = commit(
        run.pk, fence=1, source=Source("node1", "node-a"), batch=incoming(frames.points(some_points(9, 1)))
    )
    assert committed.foreign == {PRODUCER}


def test_a_viewer_may_not_and_an_outsider_does_not_know_the_run(post: Post, cast: Cast) -> None:
    assert post(1, point(1), user=cast.viewer)[0] == 403
    assert post(1, point(1), user=cast.outsider)[0] == 404


@pytest.mark.parametrize(
    "changes",
    [
        {"producer": "me"},
        {"sequence": 0},
        {"sequence": "1"},
        {"sequence": True},
        {"points": {}},
        {"points": [point(1, "1.5")]},
        {"points": [point(1, None)]},
        {"points": [point(1, True)]},
        {"points": [point(2**63)]},
        {"points": [{**point(1), "step": 1.5}]},
        {"points": [point(1, time="now")]},
        {"points": [point(1, name="n" * 501)]},
        {"points": [point(1, name="")]},
        {"points": [point(1, labels={"gpu": 0})]},
        {"points": [point(1, color="red")]},
        {"end": 1},
    ],
    ids=str,
)
def test_a_body_of_the_wrong_shape_is_refused_by_the_name_of_the_field(post: Post, changes: dict[str, Any]) -> None:
    status, problem = post(1, **{"points": [], **changes}) if "sequence" not in changes else post(changes["sequence"])
    assert status == 422
    assert problem["errors"][0]["path"].startswith(next(iter(changes)))


def test_a_body_above_ten_megabytes_is_refused_unread(cast: Cast, run: Run, client: Client) -> None:
    def send(size: int) -> int:
        body = b'{"producer": "' + PRODUCER.encode() + b'", "sequence": 1, "points": []' + b" " * size + b"}"
        headers = {"Authorization": f"Bearer {token_of(cast.mate)}"}
        path = f"/api/v1/runs/{run.pk}/points"
        return client.post(path, body, content_type="application/json", headers=headers).status_code

    assert send(10 * 1024 * 1024) == 413
    assert send(9 * 1024 * 1024) == 200
