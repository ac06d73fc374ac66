"""The other resources over REST."""

from __future__ import annotations

import hashlib
import io
import time
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from runs.ingest.lock import ShardLock
from runs.models import Node, Run
from runs.records.files import outputs
from runs.serving.transport import redis
from runs.values.status import Phase, Status
from tests.cast import Cast, allow_projects, make_attempt, make_node, make_run, spec
from tests.runs.api.conftest import Api
from tests.servers import Valkey
from trainyard import bundle
from trainyard.contract.seals import http_scope, mac

pytestmark = pytest.mark.usefixtures("valkey")


@pytest.fixture
def owner(as_: Any) -> Api:
    return as_("owner")


def sealed(node: Node, method: str, path: str, body: bytes = b"", *, at: int | None = None) -> dict[str, str]:
    """The headers with which a node signs its call."""
    at = int(time.time()) if at is None else at
    digest = hashlib.sha256(body).hexdigest().encode()
    seal = mac(node.key, http_scope(method, f"/api/v1{path}", at), digest)
    return {"X_Trainyard_Node": node.pk, "X_Trainyard_Seal": f"{at}.{seal}"}


def keep(run_id: str, path: str) -> None:
    outputs.store(run_id, path, io.BytesIO(b"x").read, hashlib.sha256(b"x").hexdigest())


def test_me_and_my_tokens(mate: Api) -> None:
    me = mate("GET", "/me").json()
    assert me["username"] == "mate" and me["projects"][0]["role"] == "member"
    made = mate("POST", "/tokens", {"name": "ci", "expires_at": "2999-01-01T00:00:00Z"})
    assert made.status_code == 201 and made["Cache-Control"] == "no-store"
    listed = mate("GET", "/tokens").json()["items"]
    assert "token" not in listed[0] and {item["name"] for item in listed} == {"ci", "test"}
    assert mate("DELETE", f"/tokens/{made.json()['id']}").status_code == 204
    assert mate("POST", "/tokens", {"name": "x", "expires_at": "2000-01-01T00:00:00Z"}).status_code == 409


def test_my_quiet_hours_are_those_of_the_page_and_null_ends_them(cast: Cast, mate: Api) -> None:
    hours = {"begins": "22:00", "ends": "07:00", "zone": "Europe/Berlin"}
    assert mate("GET", "/me").json()["quiet_hours"] is None
    changed = mate("PATCH", "/me", {"quiet_hours": hours})
    assert changed.status_code == 200 and changed.json()["quiet_hours"] == {**hours, "spares_errors": False}
    cast.mate.refresh_from_db()
    assert cast.mate.quiet_hours == {**hours, "spares_errors": False}
    mate("PATCH", "/me", {"quiet_hours": {**hours, "spares_errors": True}})
    assert mate("GET", "/me").json()["quiet_hours"]["spares_errors"] is True
    mate("PATCH", "/me", {})
    assert mate("GET", "/me").json()["quiet_hours"] == {**hours, "spares_errors": True}, "what is not named stays"
    assert mate("PATCH", "/me", {"quiet_hours": None}).json()["quiet_hours"] is None


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"begins": "25:00"}, "begins", "It must be a time such as 22:00, not '25:00'."),
        ({"ends": "22:00"}, "ends", "Quiet hours begin and end at different times."),
        ({"zone": "Mars/Base"}, "zone", "It must be a time zone such as Europe/Berlin, not 'Mars/Base'."),
        ({"zone": 5}, "quiet_hours.zone", "Input should be a valid string"),
        ({"until": "08:00"}, "quiet_hours.until", "Extra inputs are not permitted"),
    ],
)
def test_wrong_quiet_hours_are_refused_and_the_name_beside_them_stays(
    mate: Api, changes: dict[str, Any], path: str, words: str
) -> None:
    given = {"begins": "22:00", "ends": "07:00", "zone": "UTC", **changes}
    refused = mate("PATCH", "/me", {"name": "Ada", "quiet_hours": given})
    assert refused.status_code == 422 and refused.json()["errors"] == [{"path": path, "message": words}]
    me = mate("GET", "/me").json()
    assert me["quiet_hours"] is None and me["name"] == "mate"


def test_quiet_hours_beside_a_name_that_is_taken_stay(mate: Api) -> None:
    hours = {"begins": "22:00", "ends": "07:00", "zone": "UTC"}
    assert mate("PATCH", "/me", {"name": "owner", "quiet_hours": hours}).status_code == 422
    assert mate("GET", "/me").json()["quiet_hours"] is None


def test_what_i_am_called_is_changed_and_nothing_else_of_me(mate: Api) -> None:
    changed = mate("PATCH", "/me", {"name": "Ada"})
    assert changed.status_code == 200 and (changed.json()["name"], changed.json()["username"]) == ("Ada", "mate")
    refused = mate("PATCH", "/me", {"name": "owner"})
    assert refused.status_code == 422 and refused.json()["errors"] == [
        {"path": "name", "message": "Another person is called so."}
    ]
    assert mate("PATCH", "/me", {"name": "x", "is_staff": True}).status_code == 422
    assert mate("GET", "/me").json()["name"] == "Ada"


def test_jobs_are_saved_listed_and_forgotten(mate: Api) -> None:
    job = mate("POST", "/jobs", spec()).json()
    assert mate("GET", "/jobs?project=default&name=hello-gpt").json()["items"][0]["id"] == job["id"]
    assert mate("GET", f"/jobs/{job['id']}").json()["version"] == 1
    assert mate("DELETE", f"/jobs/{job['id']}").status_code == 204
    assert mate("GET", f"/jobs/{job['id']}").status_code == 404


def test_clusters_are_made_and_a_machine_joins(owner: Api, as_: Any, valkey: Valkey) -> None:
    assert owner("POST", "/clusters", {"name": "lab", "region": "eu"}).status_code == 201
    token = owner("POST", "/clusters/lab/join-tokens").json()["token"]
    body = {"token": token, "name": "gpu-1", "address": "10.0.0.1", "slots": None, "inventory": {}, "version": "0.1.0"}
    joined = as_("")("POST", "/nodes/join", body)
    assert joined.status_code == 201
    assert joined.json().keys() == {"id", "name", "cluster", "key", "redis_url", "redis_tls_url", "authorities"}
    place = settings.REDIS_URL.removeprefix("unix://")
    assert joined.json()["redis_url"].startswith(f"unix://trainyard-node-{joined.json()['id']}:")
    assert joined.json()["redis_url"].endswith(f"@{place}")
    assert as_("")("POST", "/nodes/join", body).status_code == 403
    cluster = owner("GET", "/clusters/lab").json()
    assert (cluster["num_nodes"], cluster["num_free_slots"]) == (1, 0)  # it has not spoken yet
    node = owner("GET", "/nodes?cluster=lab").json()["items"][0]
    assert node["name"] == "gpu-1" and "key" not in node
    assert owner("POST", "/nodes/gpu-1/drain").json()["is_draining"] is True
    assert owner("POST", "/nodes/gpu-1/enable").json()["is_draining"] is False
    assert owner("DELETE", "/clusters/lab").status_code == 409
    assert owner("DELETE", "/nodes/gpu-1").status_code == 204
    assert owner("PATCH", "/clusters/lab", {"region": "us"}).json()["region"] == "us"
    assert owner("PATCH", "/clusters/lab", {"isolation_minimum": 2}).json()["isolation_minimum"] == 2
    refused = owner("PATCH", "/clusters/lab", {"isolation_minimum": 3})
    assert refused.status_code == 422 and "level 3 is a container" in refused.text
    assert owner("PATCH", "/clusters/lab", {"scheduling": "equal-shares"}).json()["scheduling"] == "equal-shares"
    refused = owner("PATCH", "/clusters/lab", {"scheduling": "mine first"})
    assert refused.status_code == 422 and "'mine first' is none of fair-share, first-come, equal-shares" in refused.text


@pytest.mark.parametrize("body", [{"name": "no spaces"}, {"name": ""}, {"name": "x", "engine": "slurm"}, {}])
def test_a_bad_cluster_is_422(owner: Api, body: dict[str, str]) -> None:
    assert owner("POST", "/clusters", body).status_code == 422


def test_a_project_is_made_by_who_may_and_by_nobody_else(mate: Api, cast: Cast) -> None:
    refused = mate("POST", "/projects", {"name": "mine"})
    assert refused.status_code == 403 and "administrator" in refused.json()["detail"]
    allow_projects(cast.mate)
    assert mate("POST", "/projects", {"name": "mine"}).status_code == 201


def test_the_slots_of_a_node_are_changed(owner: Api, mate: Api, cast: Cast) -> None:
    node = make_node(cast.cluster, "node-a")
    assert owner("PATCH", "/nodes/node-a", {"slots": 8}).json()["slots"] == 8
    make_attempt(make_run(cast), [node], ranks=2)
    refused = owner("PATCH", "/nodes/node-a", {"slots": 1})
    assert refused.status_code == 409 and "keeps at least 2 slots" in refused.json()["detail"]
    for wrong in (0, 1025, "many", None):
        assert owner("PATCH", "/nodes/node-a", {"slots": wrong}).status_code == 422
    assert owner("PATCH", "/nodes/node-a", {"slots": 2, "name": "b"}).status_code == 422
    assert owner("GET", "/nodes/node-a").json()["slots"] == 8


def test_projects_members_and_invitations(owner: Api, cast: Cast) -> None:
    allow_projects(cast.owner)
    assert owner("POST", "/projects", {"name": "vision"}).status_code == 201
    assert {item["name"] for item in owner("GET", "/projects").json()["items"]} == {"default", "vision"}
    members = owner("GET", "/projects/default/members").json()["items"]
    assert {(item["username"], item["role"]) for item in members} >= {("mate", "member"), ("viewer", "viewer")}
    assert owner("PUT", "/projects/default/members/mate", {"role": "viewer"}).json()["role"] == "viewer"
    assert owner("DELETE", "/projects/default/members/mate").status_code == 204
    assert owner("DELETE", "/projects/default/members/mate").status_code == 404
    invited = owner("POST", "/projects/default/invitations", {"role": "member", "email": "a@example.org"})
    assert invited.status_code == 201 and invited.json()["secret"]
    assert "secret" not in owner("GET", "/projects/default/invitations").json()["items"][0]
    assert owner("POST", "/projects/default/invitations", {"role": "king"}).status_code == 422


def test_code_is_uploaded_by_members_and_fetched_by_nodes(mate: Api, as_: Any, cast: Cast, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)")
    data, sha256, _ = bundle.pack(tmp_path)
    made = mate("POST", "/bundles", data)
    assert (made.status_code, made.json()["files"]) == (201, ["train.py"])
    assert mate("POST", "/bundles", b"junk").status_code == 422
    node, other, path = make_node(cast.cluster), make_node(cast.cluster), f"/bundles/{sha256}"
    document = {"name": "x", "task": {"script": "train.py", "code": {"sha256": sha256}}}
    run = mate("POST", "/runs", document).json()
    make_attempt(Run.objects.get(pk=run["id"]), [node])
    anybody = as_("")
    fetched = anybody("GET", path, **sealed(node, "GET", path))
    assert fetched.status_code == 200 and b"".join(fetched.streaming_content) == data
    assert anybody("GET", path, **sealed(other, "GET", path)).status_code == 404  # nothing of it runs there
    assert anybody("GET", path, **sealed(node, "PUT", path)).status_code == 401
    assert anybody("GET", path, **sealed(node, "GET", path, at=1)).status_code == 401
    assert mate("GET", path).status_code == 401


def test_a_node_leaves_files_that_people_download(mate: Api, as_: Any, cast: Cast) -> None:
    node = make_node(cast.cluster)
    run = make_run(cast, status=Status.RUNNING)
    attempt = make_attempt(run, [node], phase=Phase.RUNNING)
    path, data, anybody = f"/node/runs/{run.pk}/fences/{attempt.fence}/files/a/model.svg", b"<svg onload=x>", as_("")
    assert anybody("PUT", path, data, **sealed(node, "PUT", path, data)).status_code == 204
    listed = mate("GET", f"/runs/{run.pk}/files").json()["items"]
    assert [(item["path"], item["size_bytes"]) for item in listed] == [("a/model.svg", len(data))]
    got = mate("GET", f"/runs/{run.pk}/files/a/model.svg")
    assert b"".join(got.streaming_content) == data
    assert got["Content-Type"] == "application/octet-stream" and got["X-Content-Type-Options"] == "nosniff"
    assert got["Content-Disposition"].startswith("attachment") and "sandbox" in got["Content-Security-Policy"]
    assert as_("outsider")("GET", f"/runs/{run.pk}/files/a/model.svg").status_code == 404
    assert mate("GET", f"/runs/{run.pk}/files/none").status_code == 404


def test_files_of_another_node_an_old_fence_or_another_body_are_refused(as_: Any, cast: Cast) -> None:
    node, other = make_node(cast.cluster), make_node(cast.cluster)
    run = make_run(cast, status=Status.RUNNING)
    attempt = make_attempt(run, [node], phase=Phase.RUNNING)
    path, anybody = f"/node/runs/{run.pk}/fences/{attempt.fence}/files/x", as_("")
    assert anybody("PUT", path, b"1", **sealed(other, "PUT", path, b"1")).status_code == 404
    assert anybody("PUT", path, b"2", **sealed(node, "PUT", path, b"1")).status_code == 401
    Run.objects.filter(pk=run.pk).update(fence=attempt.fence + 1)
    assert anybody("PUT", path, b"1", **sealed(node, "PUT", path, b"1")).status_code == 409
    assert outputs.listing(run.pk) == []


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/x", "a\0b", "", ".", "a" * 600, ".partial-x"])
def test_no_path_leads_out_of_the_output_folder(path: str) -> None:
    with pytest.raises(ValueError):
        keep("somerun", path)
    assert outputs.find("somerun", path) is None


def test_no_link_leads_out_of_the_output_folder(tmp_path: Path) -> None:
    keep("linked", "real")
    root = outputs.output_folder("linked")
    (tmp_path / "secret").write_text("s")
    (root / "out").symlink_to(tmp_path)
    (root / "file").symlink_to(tmp_path / "secret")
    assert outputs.find("linked", "out/secret") is None and outputs.find("linked", "file") is None
    assert [item["path"] for item in outputs.listing("linked")] == ["real"]
    with pytest.raises(ValueError):
        keep("linked", "out/more")


@pytest.mark.django_db
def test_health_needs_no_login(valkey: Valkey) -> None:
    api = Api()
    response = api("GET", "/health")
    assert response.status_code == 503 and response.json()["live"] is True and response.json()["control"] is False
    redis().set("trainyard:control:tick", time.time())
    response = api("GET", "/health")
    assert response.status_code == 503 and response.json()["control"] is True and response.json()["ingest"] is False
    assert ShardLock(0).hold()
    response = api("GET", "/health")
    assert response.status_code == 200 and response.json()["ready"] is True
    valkey.kill()
    response = api("GET", "/health")
    assert response.status_code == 503 and response.json()["valkey"] is False
