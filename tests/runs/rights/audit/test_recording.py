"""What people change by REST, pages and the admin is recorded with its values; refused tries too, within bounds."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from runs import actions
from runs.models import AuditEntry, Membership, User
from runs.rights.audit.recording import REFUSED_A_MINUTE, Refusals, action_name, is_act, refusals
from tests.cast import Cast, spec
from tests.runs.api.conftest import Api


@pytest.fixture(autouse=True)
def forget_refusals() -> None:
    refusals.__init__()  # type: ignore[misc]  # those of other tests


def api(user: User) -> Api:
    return Api(user)


def last() -> AuditEntry:
    return AuditEntry.objects.first() or AuditEntry()


def test_a_change_over_rest_says_who_from_where_by_what_and_what(cast: Cast, make_run: Any) -> None:
    run = make_run()
    assert api(cast.mate)("PATCH", f"/runs/{run.pk}", {"notes": "try again"}).status_code == 200
    row = last()
    assert (row.actor, row.action, row.object, row.project) == ("mate", "runs.edit", f"run {run.pk}", "default")
    assert (row.address, row.result) == ("127.0.0.1", "ok") and row.token.endswith(" test")
    assert row.values_before == {f"run {run.pk}": {"notes": ""}}
    assert row.values_after == {f"run {run.pk}": {"notes": "try again"}}


def test_a_change_by_a_query_is_seen_by_the_row_that_the_address_names(cast: Cast, make_run: Any) -> None:
    run = make_run()
    assert api(cast.mate)("POST", f"/runs/{run.pk}/stop").status_code == 200
    row = last()
    assert row.action == "runs.stop"
    assert (row.values_before or {})[f"run {run.pk}"]["status"] == "QUEUED"
    assert (row.values_after or {})[f"run {run.pk}"]["status"] == "CANCELLED"


def test_a_launch_names_the_run_that_it_made_and_its_project(cast: Cast, valkey: object) -> None:
    made = api(cast.mate)("POST", "/runs", spec())
    assert made.status_code == 201, made.content
    row = last()
    assert (row.action, row.object, row.project) == ("runs.create", f"run {made.json()['id']}", "default")
    assert {"runs.create"} == {
        one["action"] for one in api(cast.owner)("GET", "/audit?project=default").json()["items"]
    }


def test_a_page_records_as_rest_does(cast: Cast) -> None:
    _, others = actions.create_token(actor=cast.mate, name="the mate's")
    client = Client(headers={"Authorization": f"Bearer {others}"})  # pages take the session, whatever comes beside it
    client.force_login(cast.owner)
    answer = client.post(f"/people/{cast.project.pk}/role/{cast.mate.pk}/", {"role": "viewer"})
    assert answer.status_code == 302
    row = last()
    membership = Membership.objects.get(user=cast.mate)
    assert (row.actor, row.action, row.token) == ("owner", "people.role", "")
    assert row.values_before == {f"membership {membership.pk}": {"role": "member"}}
    assert row.values_after == {f"membership {membership.pk}": {"role": "viewer"}}


def test_what_is_secret_is_not_in_a_row(cast: Cast) -> None:
    made = api(cast.mate)("POST", "/tokens", {"name": "ci"}).json()
    row = last()
    assert row.action == "tokens.create" and "ci" in row.after
    assert made["token"] not in row.after and "digest" in row.after and "…" in (row.values_after or {}).__repr__()
    assert actions.create_token(actor=cast.mate, name="x")[0].digest not in row.after


def test_reading_is_not_recorded_and_refused_reading_is(cast: Cast) -> None:
    assert api(cast.owner)("GET", "/runs").status_code == 200
    assert not AuditEntry.objects.exists()
    for _ in range(3):
        assert api(cast.viewer)("PUT", "/projects/default/secrets/KEY", {"value": "abcd"}).status_code == 403
    row = AuditEntry.objects.get()
    assert (row.actor, row.action, row.result) == ("viewer", "projects.secrets.set", "refused: 403")
    assert row.before == row.after == ""


def test_sign_ins_are_recorded_and_a_name_that_nobody_has_is_not_kept(cast: Cast) -> None:
    cast.mate.set_password("correct horse battery staple")
    cast.mate.save()
    Client().post("/sign-in/", {"username": "mate", "password": "wrong"})
    assert (last().action, last().object, last().result) == ("sign-in", "user mate", "refused: wrong password")
    Client().post("/sign-in/", {"username": "my password 123", "password": "x"})
    assert (last().object, last().result) == ("an unknown name", "refused: unknown name")
    client = Client()
    client.post("/sign-in/", {"username": "mate", "password": "correct horse battery staple"})
    assert (last().actor, last().action, last().result) == ("mate", "sign-in", "ok")
    client.post("/sign-out/")
    assert (last().actor, last().action) == ("mate", "sign-out")
    assert not AuditEntry.objects.filter(object__contains="password").exists()


def test_refused_tries_are_counted_and_bounded() -> None:
    count = Refusals()
    assert [count.count(("a",), now=now) for now in (0.0, 1.0, 2.0, 61.0)] == [1, 0, 0, 3]
    others = [count.count((str(number),), now=62.0) for number in range(2 * REFUSED_A_MINUTE)]
    assert sum(others) == REFUSED_A_MINUTE - 1


@pytest.mark.parametrize(
    ("method", "route", "name"),
    [
        ("POST", "api/v1/runs", "runs.create"),
        ("POST", "api/v1/runs/<run_id>/stop", "runs.stop"),
        ("DELETE", "api/v1/runs/<run_id>", "runs.delete"),
        ("PUT", "api/v1/projects/<project_id>/secrets/<name>", "projects.secrets.set"),
        ("POST", "people/<slug:project_id>/role/<int:user_id>/", "people.role"),
        ("POST", "admin/runs/cluster/<path:object_id>/change/", "admin.runs.cluster.change"),
    ],
)
def test_acts_are_called_after_their_address(method: str, route: str, name: str) -> None:
    assert action_name(method, route) == name and is_act(method, route)


def test_telemetry_and_what_nodes_send_are_no_acts() -> None:
    for route in ("api/v1/runs/<run_id>/points", "api/v1/node/gone-runs", "api/v1/plans"):
        assert not is_act("POST", route)


def test_only_auditors_read_all_and_owners_what_is_of_their_projects(cast: Cast, make_run: Any) -> None:
    cast.owner.is_staff = False
    cast.owner.save()
    run = make_run()
    api(cast.mate)("POST", f"/runs/{run.pk}/stop")
    api(cast.mate)("POST", "/tokens", {"name": "ci"})
    assert {one["action"] for one in api(cast.owner)("GET", "/audit").json()["items"]} == {"runs.stop"}
    chief = User.objects.create(username="chief", is_superuser=True)
    assert "tokens.create" in {one["action"] for one in api(chief)("GET", "/audit").json()["items"]}
    assert api(chief)("GET", "/audit/verify").json()["intact"] is True


def test_filters_cursor_and_exports(cast: Cast, make_run: Any) -> None:
    run = make_run()
    for note in ("a", "b", "=cmd()"):
        api(cast.mate)("PATCH", f"/runs/{run.pk}", {"notes": note})
    owner = api(cast.owner)
    first = owner("GET", "/audit?limit=2&action=runs").json()
    assert len(first["items"]) == 2 and first["next"]
    rest = owner("GET", f"/audit?limit=2&action=runs&cursor={first['next']}").json()
    assert [one["sequence"] for one in first["items"] + rest["items"]] == [3, 2, 1]
    assert [one["action"] for one in owner("GET", "/audit?q=cmd").json()["items"]] == ["runs.edit"]
    assert owner("GET", "/audit?result=refused").json()["items"] == []
    exported = b"".join(owner("GET", "/audit/export").streaming_content).decode().splitlines()
    assert len(exported) == 4 and '"previous_hash"' in exported[0]
    table = b"".join(owner("GET", "/audit/export?format=csv").streaming_content).decode().splitlines()
    assert table[0].startswith("sequence,at,actor") and len(table) > 3
    assert last().action == "audit.export.read"
