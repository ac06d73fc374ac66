"""``/runs`` over REST: shapes, filters, cursors, and every refusal as a problem document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest

from runs import actions
from runs.models import IdempotencyKey, Run, User
from runs.values.status import Phase, Status
from tests.cast import Cast, make_attempt, make_node, spec
from tests.runs.api.conftest import Api
from tests.series import write_series
from trainyard.contract.base import to_builtins
from trainyard.contract.causes import Cause, CauseClass, Consequence

MakeRun = Callable[..., Run]
KEYS = {
    "id", "name", "project", "cluster", "status", "reason", "lamps", "step", "steps", "progress", "attempt", "restarts",
    "created_at", "started_at", "ended_at", "troubles", "throughput", "summary", "spec",
}  # fmt: skip


def ids(response: Any) -> list[str]:
    assert response.status_code == 200, response.content
    return [item["id"] for item in response.json()["items"]]


def test_a_run_is_submitted_and_shown(mate: Api) -> None:
    response = mate("POST", "/runs", spec())
    assert response.status_code == 201
    document = mate("GET", f"/runs/{response.json()['id']}").json()
    assert document.keys() >= KEYS
    assert document["reason"]["code"] == "queued" and document["lamps"].keys() == {"process", "progress", "telemetry"}
    assert (document["step"], document["steps"], document["progress"]) == (None, 300, 0.0)
    assert document["created_at"].endswith("Z")


def test_a_job_is_launched(mate: Api, cast: Cast) -> None:
    job = mate("POST", "/jobs", spec()).json()
    response = mate("POST", "/runs", {"job": job["id"], "overrides": {"name": "again"}})
    assert response.status_code == 201
    assert (response.json()["name"], response.json()["job"]) == ("again", job["id"])


def test_a_bad_spec_is_422_with_paths(mate: Api) -> None:
    response = mate("POST", "/runs", {**spec(), "resourses": {}, "train": {"steps": 0}})
    assert (response.status_code, response["Content-Type"]) == (422, "application/problem+json")
    document = response.json()
    assert {error["path"] for error in document["errors"]} >= {"resourses", "train.steps"}
    assert all(error["message"] for error in document["errors"])
    assert document["type"] and document["title"] and document["detail"] and document["status"] == 422


@pytest.mark.parametrize("body", [b"{", b"[]", b"3", b"null", b"\xff"])
def test_a_bad_body_is_422(mate: Api, body: bytes) -> None:
    response = mate.client.generic("POST", "/api/v1/runs", body, content_type="application/json", headers=mate.headers)
    assert (response.status_code, response["Content-Type"]) == (422, "application/problem+json")


def test_runs_are_found_by_what_they_are(mate: Api, make_run: MakeRun) -> None:
    one = make_run(name="alpha", tags=["A", "ü"], status=Status.RUNNING)
    two = make_run(name="beta", tags=["a"], status=Status.FAILED)
    gone = make_run(name="old", status=Status.FAILED, archived_at=two.created_at)
    assert ids(mate("GET", "/runs")) == [two.pk, one.pk]
    assert ids(mate("GET", "/runs?status=RUNNING")) == [one.pk]
    assert set(ids(mate("GET", "/runs?status=RUNNING&status=FAILED"))) == {one.pk, two.pk}
    assert ids(mate("GET", "/runs?tag=A")) == [one.pk]
    assert ids(mate("GET", "/runs?tag=A&tag=%C3%BC")) == [one.pk]
    assert ids(mate("GET", "/runs?q=alp")) == [one.pk]
    assert ids(mate("GET", "/runs?project=default&sort=name")) == [one.pk, two.pk]
    for path in ("/runs", "/jobs", "/sweeps", "/datasets"):
        refused = mate("GET", f"{path}?project=nope")
        assert refused.status_code == 404 and "no project 'nope'" in refused.json()["detail"], path
    assert ids(mate("GET", "/runs?archived=true")) == [gone.pk]
    assert mate("GET", "/runs?status=WHAT").status_code == 422


def test_runs_are_found_by_a_filter_beside_the_other_parameters(mate: Api, make_run: MakeRun) -> None:
    one = make_run(name="alpha", status=Status.FAILED, spec=spec(train={"learning_rate": 0.001}))
    two = make_run(name="beta", status=Status.FAILED, spec=spec(train={"learning_rate": 0.1}))
    three = make_run(name="gamma", tags=["keep"])
    write_series(two, "val/loss", [1.5])
    asked = {"filter": "status = FAILED and train.learning_rate < 0.01"}
    assert ids(mate("GET", f"/runs?{urlencode(asked)}")) == [one.pk]
    assert ids(mate("GET", f"/runs?{urlencode(asked)}&q=bet")) == []
    assert ids(mate("GET", "/runs?filter=not+status=FAILED&tag=keep")) == [three.pk]
    assert ids(mate("GET", "/runs?sort=-summary.val/loss.min")) == [two.pk, *sorted([one.pk, three.pk])]
    assert ids(mate("GET", "/runs?sort=train.learning_rate&limit=2")) == [one.pk, two.pk]


def test_a_filter_that_cannot_be_read_is_422_with_the_character(mate: Api) -> None:
    refused = mate("GET", f"/runs?{urlencode({'filter': 'x and statuss = FAILED'})}")
    assert (refused.status_code, refused["Content-Type"]) == (422, "application/problem+json")
    message = "statuss is no field; the nearest is status."
    assert refused.json()["errors"] == [{"path": "filter", "message": message, "position": 6}]
    for sort in ("train/loss", "spec", "-tag"):
        refused = mate("GET", f"/runs?sort={sort}")
        [error] = refused.json()["errors"]
        assert refused.status_code == 422 and error["path"] == "sort" and sort.removeprefix("-") in error["message"]


@pytest.mark.parametrize("sort", ["created_at", "-created_at", "name", "-name", "status", "-summary.val/loss.min"])
def test_cursors_walk_over_everything_once(mate: Api, make_run: MakeRun, sort: str) -> None:
    runs = {make_run(name=f"run {number % 3}").pk for number in range(7)}
    seen: list[str] = []
    cursor = ""
    while True:
        page = mate("GET", f"/runs?limit=2&sort={sort}" + (f"&cursor={cursor}" if cursor else "")).json()
        seen += [item["id"] for item in page["items"]]
        if page["next"] is None:
            break
        cursor = page["next"]
    assert len(seen) == 7 and set(seen) == runs


@pytest.mark.parametrize("sort", ["-created_at", "ended", "summary.val/loss.min", "train.steps"])
@pytest.mark.parametrize("cursor", ["x", "bnVsbA", "WyJ4IiwgInkiXQ", "W10", "%00"])
def test_a_made_up_cursor_is_422(mate: Api, cursor: str, sort: str) -> None:
    assert mate("GET", f"/runs?sort={sort}&cursor={cursor}").status_code == 422


def test_a_list_costs_the_same_for_many_runs(
    mate: Api, cast: Cast, make_run: MakeRun, django_assert_max_num_queries: Any
) -> None:
    for _ in range(8):
        make_attempt(make_run(status=Status.RUNNING), [make_node(cast.cluster)], phase=Phase.RUNNING)
    # However many runs there are. One is for roles of groups, one counts series; PostgreSQL has some for telemetry and
    # summaries.
    with django_assert_max_num_queries(13):
        assert len(ids(mate("GET", "/runs"))) == 8


def test_verbs_change_the_run_and_409_says_why_not(mate: Api, make_run: MakeRun) -> None:
    run = make_run()
    assert mate("POST", f"/runs/{run.pk}/stop").json()["status"] == "CANCELLED"
    response = mate("POST", f"/runs/{run.pk}/stop")
    assert (response.status_code, response["Content-Type"]) == (409, "application/problem+json")
    assert response.json()["detail"] == "Run hello-gpt has already ended: CANCELLED."
    assert mate("POST", f"/runs/{run.pk}/archive").json()["archived_at"]
    assert mate("POST", f"/runs/{run.pk}/restart").json()["status"] == "QUEUED"
    assert mate("POST", f"/runs/{run.pk}/archive").status_code == 409
    assert mate("DELETE", f"/runs/{run.pk}").status_code == 409


def test_a_clone_is_another_run(mate: Api) -> None:
    run = mate("POST", "/runs", spec()).json()
    clone = mate("POST", f"/runs/{run['id']}/clone", {"overrides": {"train.steps": 40}})
    assert clone.status_code == 201
    assert (clone.json()["parent"], clone.json()["spec"]["train"]["steps"]) == (run["id"], 40)
    assert mate("POST", f"/runs/{run['id']}/clone").status_code == 201  # a body is not needed
    assert mate("POST", f"/runs/{run['id']}/clone", {"overrides": {"train.what": 1}}).status_code == 422


def test_a_run_is_paused_and_resumed_and_409_says_why_not(mate: Api, make_run: MakeRun) -> None:
    run = make_run()
    refused = mate("POST", f"/runs/{run.pk}/resume")
    assert (refused.status_code, refused.json()["detail"]) == (
        409,
        "Run hello-gpt is QUEUED. Only a paused run can be resumed.",
    )
    assert mate("POST", f"/runs/{run.pk}/pause").json()["status"] == "PAUSED"
    assert ids(mate("GET", "/runs?status=PAUSED")) == [run.pk]
    assert mate("POST", f"/runs/{run.pk}/resume").json()["status"] == "QUEUED"
    mate("POST", f"/runs/{run.pk}/stop")
    assert mate("POST", f"/runs/{run.pk}/pause").json()["detail"] == "Run hello-gpt has already ended: CANCELLED."


def test_an_ended_run_is_deleted(mate: Api, make_run: MakeRun) -> None:
    run = make_run(status=Status.FAILED)
    assert mate("DELETE", f"/runs/{run.pk}").status_code == 204
    assert mate("GET", f"/runs/{run.pk}").status_code == 404


def test_tags_and_notes_are_changed(mate: Api, make_run: MakeRun) -> None:
    run = make_run()
    document = mate("PATCH", f"/runs/{run.pk}", {"tags": ["x"], "notes": "n"}).json()
    assert (document["tags"], document["notes"]) == (["x"], "n")
    assert mate("PATCH", f"/runs/{run.pk}", {"status": "SUCCEEDED"}).status_code == 422


def test_the_history_is_listed(mate: Api, cast: Cast, make_run: MakeRun) -> None:
    run = make_run(status=Status.RUNNING)
    attempt = make_attempt(run, [make_node(cast.cluster)], phase=Phase.RUNNING)
    run.record("note", "Something happened.", attempt=attempt, actor=cast.mate)
    attempts = mate("GET", f"/runs/{run.pk}/attempts").json()["items"]
    assert attempts[0]["placements"][0]["slots"] == [0]
    events = mate("GET", f"/runs/{run.pk}/events").json()["items"]
    assert (events[0]["code"], events[0]["attempt"], events[0]["actor"]) == ("note", 1, "mate")


def test_an_attempt_says_why_it_ended(mate: Api, cast: Cast, make_run: MakeRun) -> None:
    run = make_run(status=Status.FAILED)
    attempt = make_attempt(run, [make_node(cast.cluster)], phase=Phase.ENDED)
    url = f"/runs/{run.pk}/attempts"
    assert mate("GET", url).json()["items"][0]["cause"] is None
    felt = Consequence("Rank 0 on a lost its connection to another rank.", "a", 0)
    attempt.cause = to_builtins(
        Cause(
            cause_class=CauseClass.KILLED,
            sentence="Rank 1 on b was killed by SIGKILL (9).",
            node="b",
            rank=1,
            evidence={"signal": 9},
            consequences=[felt],
        )
    )
    attempt.save()
    assert mate("GET", url).json()["items"][0]["cause"] == {
        "class": "killed",
        "sentence": "Rank 1 on b was killed by SIGKILL (9).",
        "node": "b",
        "rank": 1,
        "evidence": {"signal": 9},
        "consequences": [{"sentence": felt.sentence, "node": "a", "rank": 0}],
    }
    schema = mate("GET", "/openapi.json").json()["components"]["schemas"]["CauseOut"]
    assert "class" in schema["properties"] and "gpu-out-of-memory" in schema["properties"]["class"]["description"]


def test_a_retry_with_the_same_key_gets_the_same_answer(mate: Api) -> None:
    first = mate("POST", "/runs", spec(), Idempotency_Key="one")
    again = mate("POST", "/runs", spec(), Idempotency_Key="one")
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json() and again["Idempotency-Replayed"] == "true"
    assert Run.objects.count() == 1
    assert mate("POST", "/runs", spec(name="other"), Idempotency_Key="one").status_code == 422
    assert mate("POST", "/runs", spec(), Idempotency_Key="two").status_code == 201


def test_a_request_that_gives_its_sender_a_right_is_repeated_too(as_: Any, cast: Cast) -> None:
    User.objects.filter(pk=cast.owner.pk).update(is_superuser=True)
    owner = as_("owner")
    first = owner("POST", "/projects", {"name": "vision"}, Idempotency_Key="one")
    again = owner("POST", "/projects", {"name": "vision"}, Idempotency_Key="one")
    assert (first.status_code, again.status_code) == (201, 201) and again.json() == first.json()


def test_a_key_belongs_to_its_person(mate: Api, as_: Any, cast: Cast) -> None:
    mate("POST", "/runs", spec(), Idempotency_Key="one")
    assert as_("owner")("POST", "/runs", spec(), Idempotency_Key="one").json()["created_by"] == "owner"


def test_secrets_are_not_kept_with_a_key(mate: Api) -> None:
    first = mate("POST", "/tokens", {"name": "x"}, Idempotency_Key="one").json()
    assert first["token"] and not IdempotencyKey.objects.exists()


def test_a_revoked_token_is_401(mate: Api, cast: Cast) -> None:
    token = cast.mate.tokens.get()
    actions.revoke_token(actor=cast.mate, token_id=token.pk)
    response = mate("GET", "/me")
    assert response.status_code == 401 and response["WWW-Authenticate"] == "Bearer"


def test_a_path_that_nothing_serves_is_a_problem_too(mate: Api) -> None:
    response = mate("GET", "/nothing/here")
    assert (response.status_code, response["Content-Type"]) == (404, "application/problem+json")


def test_a_browser_needs_its_csrf_token(cast: Cast, make_run: MakeRun) -> None:
    from django.test import Client

    client = Client(enforce_csrf_checks=True)
    client.force_login(cast.mate)
    path = f"/api/v1/runs/{make_run().pk}"
    assert client.get(path).status_code == 200
    assert client.post(f"{path}/stop").status_code == 403


def test_a_note_at_a_step_is_an_event_of_whoever_may_annotate(mate: Api, as_: Any, make_run: MakeRun) -> None:
    run = make_run()
    answer = mate("POST", f"/runs/{run.pk}/notes", {"step": 40, "text": "new data\u0000 from\nhere"})
    assert answer.status_code == 201
    [event] = [one for one in mate("GET", f"/runs/{run.pk}/events").json()["items"] if one["code"] == "note"]
    assert event == answer.json()
    assert (event["sentence"], event["actor"], event["data"]) == ("new data from here", "mate", {"step": 40})
    assert as_("viewer")("POST", f"/runs/{run.pk}/notes", {"step": 40, "text": "no"}).status_code == 403
    for step, text in ((-1, "x"), (2**63, "x"), ("soon", "x"), (1, ""), (1, "x" * 501)):
        assert mate("POST", f"/runs/{run.pk}/notes", {"step": step, "text": text}).status_code == 422
    assert mate("POST", f"/runs/{run.pk}/notes", {"step": 1, "text": " \n "}).status_code == 409
