"""Large files on their way in and out: never whole in memory, and only what was sealed."""

from __future__ import annotations

import hashlib
import secrets
import time
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient
from django.utils import timezone

from runs.models import Attempt, Node, Placement
from runs.records.files import outputs
from runs.values.status import Phase, Status
from tests.cast import Cast, make_attempt, make_node, make_run
from tests.runs.api.conftest import Api
from tests.servers import Valkey
from trainyard.contract.limits import UNSENT_KEPT_S
from trainyard.contract.seals import http_scope, mac

pytestmark = pytest.mark.usefixtures("valkey")

DATA = b"weights " * 40_000


@pytest.fixture
def attempt(cast: Cast) -> Attempt:
    node = make_node(cast.cluster, "holder")
    return make_attempt(make_run(cast, status=Status.RUNNING), [node], phase=Phase.RUNNING)


def place(attempt: Attempt, name: str = "model.safetensors") -> str:
    return f"/node/runs/{attempt.run_id}/fences/{attempt.fence}/files/{name}"


def sealed(node: Node, method: str, path: str, data: bytes, *, age_s: int = 0) -> dict[str, str]:
    """The headers of a node that says beforehand what it will send."""
    at, digest = int(time.time()) - age_s, hashlib.sha256(data).hexdigest()
    seal = mac(node.key, http_scope(method, f"/api/v1{path}", at), digest.encode())
    return {"X_Trainyard_Node": node.pk, "X_Trainyard_Seal": f"{at}.{seal}", "X_Trainyard_Digest": digest}


def sealed_once(node: Node, method: str, path: str, data: bytes) -> dict[str, str]:
    """As ``sealed``, with a nonce, as nodes of this version send it."""
    at, digest, nonce = int(time.time()), hashlib.sha256(data).hexdigest(), secrets.token_hex(16)
    seal = mac(node.key, http_scope(method, f"/api/v1{path}", at, nonce), digest.encode())
    return {"X_Trainyard_Node": node.pk, "X_Trainyard_Seal": f"{at}.{seal}.{nonce}", "X_Trainyard_Digest": digest}


def holder() -> Node:
    return Node.objects.get(name="holder")


def test_a_file_may_be_larger_than_what_is_read_into_memory(as_: Any, attempt: Attempt, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    path = place(attempt)
    assert as_("")("PUT", path, DATA, **sealed(holder(), "PUT", path, DATA)).status_code == 204
    found = outputs.find(attempt.run_id, "model.safetensors")
    assert found is not None and found.read_bytes() == DATA


def test_a_body_that_is_not_the_sealed_one_leaves_nothing(as_: Any, attempt: Attempt) -> None:
    path = place(attempt)
    answer = as_("")("PUT", path, DATA + b"!", **sealed(holder(), "PUT", path, DATA))
    assert answer.status_code == 422
    assert outputs.listing(attempt.run_id) == []


def test_a_file_over_the_limit_is_413_and_leaves_nothing(
    as_: Any, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "MAX_FILE_BYTES", 1000)
    path = place(attempt)
    answer = as_("")("PUT", path, DATA, **sealed(holder(), "PUT", path, DATA))
    assert answer.status_code == 413
    assert outputs.listing(attempt.run_id) == []


@pytest.mark.parametrize("case", ["old", "other path", "other node", "removed node", "no digest that is one"])
def test_a_seal_that_does_not_fit_is_401(as_: Any, attempt: Attempt, cast: Cast, case: str) -> None:
    path, node = place(attempt), holder()
    headers = sealed(node, "PUT", path, DATA, age_s=400 if case == "old" else 0)
    if case == "other path":
        headers = sealed(node, "PUT", place(attempt, "another"), DATA)
    if case == "other node":
        headers["X_Trainyard_Node"] = make_node(cast.cluster, "other").pk
    if case == "removed node":
        Node.objects.update(removed_at="2026-01-01T00:00:00Z")
    if case == "no digest that is one":
        headers["X_Trainyard_Digest"] = "x"
    assert as_("")("PUT", path, DATA, **headers).status_code == 401
    assert outputs.listing(attempt.run_id) == []


def test_a_node_cannot_leave_files_in_a_run_of_another(as_: Any, attempt: Attempt, cast: Cast) -> None:
    other, path = make_node(cast.cluster, "other"), place(attempt)
    assert as_("")("PUT", path, DATA, **sealed(other, "PUT", path, DATA)).status_code == 404


@pytest.mark.parametrize("name", ["%C3%BC" * 150, "a/" * 20 + "%F0%9F%9A%82" * 100, "%FF%FE", "a%00b"])
def test_a_name_that_no_disk_takes_is_not_found(mate: Api, attempt: Attempt, name: str) -> None:
    outputs.output_folder(attempt.run_id).mkdir(parents=True)
    assert mate("GET", f"/runs/{attempt.run_id}/files/{name}").status_code == 404


def test_a_download_is_sent_while_it_is_read(mate: Api, attempt: Attempt, settings: Any) -> None:
    path = outputs.output_folder(attempt.run_id) / "model.safetensors"
    path.parent.mkdir(parents=True)
    path.write_bytes(DATA * 8)

    async def download() -> tuple[int, list[bytes], str]:
        url = f"/api/v1/runs/{attempt.run_id}/files/model.safetensors"
        response: Any = await AsyncClient().get(url, headers=mate.headers)
        assert response.is_async, "else Django reads the whole file first"
        parts = [part async for part in response.streaming_content]
        response.close()
        return response.status_code, parts, response["Content-Length"]

    status, parts, length = async_to_sync(download)()
    assert status == 200 and int(length) == len(DATA) * 8
    assert b"".join(parts) == DATA * 8 and len(parts) > 1


@pytest.mark.parametrize("headers", [{}, {"Idempotency_Key": "once"}])
def test_a_bundle_over_the_limit_is_a_413_problem(mate: Api, settings: Any, headers: dict[str, str]) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    answer = mate("POST", "/bundles", DATA, **headers)
    assert answer.status_code == 413 and answer["Content-Type"] == "application/problem+json"


def test_a_sealed_request_is_taken_once(as_: Any, attempt: Attempt, valkey: Valkey) -> None:
    path, first, second = place(attempt), b"first", b"second"
    old = sealed_once(holder(), "PUT", path, first)
    assert as_("")("PUT", path, first, **old).status_code == 204
    assert as_("")("PUT", path, second, **sealed_once(holder(), "PUT", path, second)).status_code == 204
    assert as_("")("PUT", path, first, **old).status_code == 401
    found = outputs.find(attempt.run_id, "model.safetensors")
    assert found is not None and found.read_bytes() == second


def test_a_request_without_a_nonce_is_taken_once_too(as_: Any, attempt: Attempt) -> None:
    path = place(attempt)
    old = sealed(holder(), "PUT", path, DATA)
    assert as_("")("PUT", path, DATA, **old).status_code == 204
    assert as_("")("PUT", path, DATA, **old).status_code == 401


def test_a_nonce_cannot_be_taken_off_or_exchanged(as_: Any, attempt: Attempt, valkey: Valkey) -> None:
    path = place(attempt)
    headers = sealed_once(holder(), "PUT", path, DATA)
    at, seal, _ = headers["X_Trainyard_Seal"].split(".")
    for value in (f"{at}.{seal}", f"{at}.{seal}.{secrets.token_hex(16)}", f"{at}.{seal}.", f"{at}.{seal}.x"):
        assert as_("")("PUT", path, DATA, **{**headers, "X_Trainyard_Seal": value}).status_code == 401, value


def test_without_valkey_nobody_knows_whether_it_came_before_and_the_node_tries_again(
    as_: Any, attempt: Attempt, valkey: Valkey
) -> None:
    path = place(attempt)
    valkey.kill()
    answer = as_("")("PUT", path, DATA, **sealed_once(holder(), "PUT", path, DATA))
    assert answer.status_code == 503
    assert outputs.listing(attempt.run_id) == []


@pytest.mark.parametrize("case", ["everything was sent", "long ago"])
def test_a_run_that_is_over_takes_no_more_files_of_its_node(as_: Any, attempt: Attempt, case: str) -> None:
    now, path = timezone.now(), place(attempt)
    Attempt.objects.update(ended_at=now)
    assert as_("")("PUT", path, DATA, **sealed(holder(), "PUT", path, DATA)).status_code == 204
    if case == "long ago":
        Attempt.objects.update(ended_at=now - timedelta(seconds=UNSENT_KEPT_S + 1))
    else:
        Placement.objects.update(done_at=now)
    answer = as_("")("PUT", path, b"!", **sealed(holder(), "PUT", path, b"!"))
    assert answer.status_code == 410 and "over" in answer.json()["detail"]
    found = outputs.find(attempt.run_id, "model.safetensors")
    assert found is not None and found.read_bytes() == DATA
