from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from runs import actions
from runs.api.metrics import points
from runs.ingest.commit import Source, commit
from runs.ingest.validation.records import incoming
from runs.models import Run, User
from runs.records.metrics.models import Producer
from runs.records.points import read
from tests.cast import Cast
from tests.runs.api.conftest import Api
from tests.series import series_data
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
    loss = series_data(run.pk, ["loss"])["series"]
    assert [part["value"] for part in loss] == [[1.0, "NaN", 1.0]]
    assert loss[0]["time"][1] == 5.0
    row = Producer.objects.get()
    assert (row.role, row.end_sequence, row.attempt) == ("rest", 2, run.fence)


def test_the_same_batch_again_changes_nothing(post: Post, run: Run) -> None:
    for _ in range(3):
        assert post(1, point(1)) == (200, {"watermark": 1})
    assert series_data(run.pk, ["loss"])["series"][0]["step"] == [1]


def test_a_batch_behind_a_gap_is_refused_and_told_what_is_expected(post: Post, run: Run) -> None:
    post(1, point(1))
    status, problem = post(3, point(3))
    assert (status, problem["expected"], problem["status"]) == (409, 2, 409)
    assert not Producer.objects.filter(run_id=run.pk, has_gap=True).exists()


def test_the_name_of_a_rank_cannot_be_taken(post: Post, run: Run) -> None:
    spool = Spool(PRODUCER)
    commit(run.pk, fence=1, source=Source("node1", "node-a"), batch=incoming(spool.points(some_points(1, 1))))
    assert post(2, point(5))[0] == 409
    assert series_data(run.pk, ["loss"])["series"] == []


def test_a_rank_cannot_take_the_name_of_a_rest_producer(post: Post, run: Run) -> None:
    post(1, point(1))
    frames = Spool(PRODUCER)
    frames.begin()
    committed = commit(
        run.pk, fence=1, source=Source("node1", "node-a"), batch=incoming(frames.points(some_points(9, 1)))
    )
    assert committed.foreign == {PRODUCER}


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


LONG = "n" * 10_000


@pytest.mark.parametrize(
    ("wrong", "path", "words"),
    [
        (point(1, "1.5"), "points.1.value", "number, or input should be 'NaN', 'Infinity' or '-Infinity'; it is '1.5'"),
        (point(1, name=LONG), "points.1.name", "at most 500 characters; it is 'nnn"),
        (point(1, name="a\0b"), "points.1.name", "Control characters are not accepted; it is 'a\\x00b'"),
        (point(1, name="a\x1bb"), "points.1.name", "Control characters"),
        (point(1, labels={"gpu": "0\n"}), "points.1.labels.gpu", "Control characters"),
        (point(1, labels={"\0": "0"}), "points.1.labels", "Control characters"),
        (point(1, labels={LONG: "0"}), "points.1.labels", "at most 500"),
        (point(1, labels={str(n): "" for n in range(33)}), "points.1.labels", "at most 32 items"),
        (point(1, time=float("inf")), "points.1.time", "finite number; it is inf"),
        (point(1, time=float("nan")), "points.1.time", "finite number; it is nan"),
        (point(2**63), "points.1.step", f"less than or equal to {2**63 - 1}; it is {2**63}"),
        ({"name": "loss", "value": 1.0}, "points.1.step", "Field required"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_a_bad_point_is_named_with_its_value_and_nothing_of_its_batch_is_lost(
    post: Post, run: Run, wrong: dict[str, Any], path: str, words: str
) -> None:
    status, problem = post(1, point(1), wrong, point(3))
    assert (status, problem["code"]) == (422, "invalid")
    (error, *_) = problem["errors"]
    assert error["path"].startswith(path) and words in error["message"]
    assert len(json.dumps(problem)) < 2_000, "not everything that was sent is said again"
    assert series_data(run.pk, [])["series"] == []
    assert post(1, point(1), point(2), point(3)) == (200, {"watermark": 1})
    assert series_data(run.pk, ["loss"])["series"][0]["step"] == [1, 2, 3]


def test_too_many_points_are_refused_and_fewer_are_stored(post: Post, run: Run) -> None:
    many = [point(step) for step in range(points.MAX_POINTS + 1)]
    status, problem = post(1, *many)
    assert status == 422 and problem["errors"][0]["path"] == "points"
    assert f"at most {points.MAX_POINTS} items" in problem["detail"]
    assert post(1, *many[1:]) == (200, {"watermark": 1})
    assert read.series_list(run.pk)[0]["count"] == points.MAX_POINTS


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"[" * 100_000, b'{"producer": "\xff"}'], ids=lambda body: repr(body)[:20]
)
def test_a_body_that_is_no_json_of_ours_is_refused(mate: Api, run: Run, body: bytes) -> None:
    answer = mate("POST", f"/runs/{run.pk}/points", body)
    assert answer.status_code == 422 and answer["Content-Type"] == "application/problem+json"


def test_a_body_above_ten_megabytes_is_refused_unread(cast: Cast, run: Run, client: Client) -> None:
    def send(size: int) -> int:
        body = b'{"producer": "' + PRODUCER.encode() + b'", "sequence": 1, "points": []' + b" " * size + b"}"
        headers = {"Authorization": f"Bearer {token_of(cast.mate)}"}
        path = f"/api/v1/runs/{run.pk}/points"
        return client.post(path, body, content_type="application/json", headers=headers).status_code

    assert send(10 * 1024 * 1024) == 413
    assert send(9 * 1024 * 1024) == 200
