"""``/runs/{id}/checkpoints`` and ``/continue``, and what nodes ask before they delete."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from typing import Any

import pytest

from runs import actions
from runs.models import Membership, Node, Project, Role, Run
from tests.cast import Cast, make_attempt, make_node, make_run, make_user, spec
from tests.checkpoints import saved, tell
from tests.runs.api.conftest import Api
from trainyard.contract.calls import NODE_UNKNOWN
from trainyard.contract.seals import http_scope, mac
from trainyard.spec import parse_spec

pytestmark = pytest.mark.usefixtures("valkey")


@pytest.fixture
def run(cast: Cast) -> Run:
    """Its first attempt saved 100 and 200, and the second went on from 200."""
    run = make_run(cast, spec=parse_spec(spec()).resolved(), status="FAILED")
    node = make_node(cast.cluster, "node-a")
    make_attempt(run, [node], ended_at="2026-01-01T00:00:00Z").placements.all().delete()
    tell(run, saved(100), saved(200), {"state": "deleted", "step": 100, "at": 1.7e9 + 300})
    make_attempt(run, [node]).placements.all().delete()
    tell(run, {"state": "restored", "step": 200, "fence": 1, "at": 1.7e9 + 400})
    return run


def test_checkpoints_are_listed_with_all_that_is_known_of_them(mate: Api, run: Run) -> None:
    answer = mate("GET", f"/runs/{run.pk}/checkpoints").json()
    newest, oldest = answer["items"]
    assert newest == {
        "name": "step-200.fence-1", "step": 200, "fence": 1, "attempt": 1, "state": "valid", "valid": True, "why": "",
        "bytes": 4096, "num_files": 3, "world_size": 2, "degrees": {"data": 2}, "took_s": 0.5, "stall_s": 0.01,
        "key_version": 0, "at": "2023-11-14T22:16:40Z", "rank": 0, "node": "node-a", "deleted_at": None,
        "restored_by": [{"run": run.pk, "attempt": 2, "at": "2023-11-14T22:20:00Z"}],
    }  # fmt: skip
    assert (oldest["step"], oldest["state"], oldest["valid"]) == (100, "deleted", False)
    assert oldest["deleted_at"] == "2023-11-14T22:18:20Z"


def test_the_list_has_pages(mate: Api, run: Run) -> None:
    page = mate("GET", f"/runs/{run.pk}/checkpoints?limit=1").json()
    assert [one["step"] for one in page["items"]] == [200]
    rest = mate("GET", f"/runs/{run.pk}/checkpoints?limit=1&cursor={page['next']}").json()
    assert ([one["step"] for one in rest["items"]], rest["next"]) == ([100], None)


def test_runs_that_went_on_elsewhere_are_named_to_those_who_see_them(cast: Cast, mate: Api, run: Run) -> None:
    secret = Project.objects.create(name="secret")
    owner = make_user("elsewhere")
    Membership.objects.create(project=secret, user=owner, role=Role.OWNER)
    from_it = {**run.spec, "checkpoint": {"restore": f"{run.pk}@200"}}
    ours = make_run(cast, spec=from_it, fence=1)
    hidden = make_run(cast, spec=from_it, project=secret, fence=1)
    liar = make_run(cast, fence=1)  # its spec does not say so
    for other in (ours, hidden, liar):
        tell(other, {"state": "restored", "run": run.pk, "step": 200, "fence": 1})
    items = mate("GET", f"/runs/{run.pk}/checkpoints").json()["items"]
    assert [use["run"] for use in items[0]["restored_by"]] == [run.pk, ours.pk]


def test_a_new_run_goes_on_from_the_newest(mate: Api, run: Run) -> None:
    answer = mate("POST", f"/runs/{run.pk}/continue")
    assert answer.status_code == 201
    assert answer.json()["spec"]["checkpoint"]["restore"] == f"{run.pk}@200"
    assert answer.json()["parent"] == run.pk


def test_what_does_not_fit_is_422_and_what_is_not_there_409(cast: Cast, mate: Api, run: Run) -> None:
    answer = mate("POST", f"/runs/{run.pk}/continue", {"step": 100})
    assert answer.status_code == 422
    assert [error["path"] for error in answer.json()["errors"]] == ["checkpoint.restore"]
    assert mate("POST", f"/runs/{make_run(cast).pk}/continue").status_code == 409


def ask(node: Node, runs: list[str], *, sealed: list[str] | None = None, **forged: str) -> Any:
    """Ask about ``runs`` with a seal over the question about ``sealed``."""
    path, at, body = "/node/gone-runs", int(time.time()), json.dumps({"runs": sealed or runs}).encode()
    digest = hashlib.sha256(body).hexdigest()
    if sealed is not None:
        forged["X_Trainyard_Digest"] = digest
    seal = mac(node.key, http_scope("POST", f"/api/v1{path}", at, nonce := secrets.token_hex(16)), digest.encode())
    headers = {"X_Trainyard_Node": node.pk, "X_Trainyard_Seal": f"{at}.{seal}.{nonce}", **forged}
    return Api()("POST", path, {"runs": runs}, **headers)


def test_a_node_learns_which_runs_were_deleted_here_and_only_those(cast: Cast, run: Run) -> None:
    node = make_node(cast.cluster)
    stays = make_run(cast)
    asked = [run.pk, stays.pk, "elsewhere"]
    assert ask(node, asked).json() == {"gone": []}
    actions.delete_run(actor=cast.owner, run=run)
    assert ask(node, asked).json() == {"gone": [asked[0]]}


def test_nobody_but_a_node_may_ask(cast: Cast, mate: Api) -> None:
    assert mate("POST", "/node/gone-runs", {"runs": []}).status_code == 401
    node = make_node(cast.cluster)
    assert ask(node, ["a"], X_Trainyard_Seal="1.0").status_code == 401
    assert ask(node, ["a"], X_Trainyard_Digest="0" * 64).status_code == 401
    assert ask(node, ["a"], sealed=["b"]).status_code == 401


def test_a_node_that_was_removed_learns_it_and_a_wrong_clock_is_not_taken_for_that(cast: Cast) -> None:
    node = make_node(cast.cluster)
    assert ask(node, ["a"], X_Trainyard_Seal="1.0").json()["code"] != NODE_UNKNOWN
    actions.remove_node(actor=cast.owner, node=Node.objects.get(pk=node.pk))
    assert (ask(node, []).status_code, ask(node, []).json()["code"]) == (401, NODE_UNKNOWN)
    assert ask(Node.objects.get(pk=node.pk), []).json()["code"] == NODE_UNKNOWN
    Node.objects.all().delete()
    assert ask(node, []).json()["code"] == NODE_UNKNOWN
