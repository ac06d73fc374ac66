"""How a person looks at a project's charts, kept over REST."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from runs.models import Workspace
from tests.cast import Cast
from tests.runs.api.conftest import Api

PATH = "/projects/default/workspace"
STATE = {"axis": "relative", "smoothing": {"kind": "ema", "amount": 0.6}, "pinned": ["train/loss", "été/损失"]}


def test_what_is_kept_is_read_again_and_replaces_what_was(mate: Api) -> None:
    assert mate("GET", PATH).json() == {"state": {}, "saved_at": None}
    kept = mate("PUT", PATH, {"state": STATE})
    assert kept.status_code == 200 and kept.json()["state"] == STATE
    assert mate("GET", PATH).json() == kept.json()
    assert mate("PUT", PATH, {"state": {"axis": "time"}}).status_code == 200
    assert mate("GET", PATH).json()["state"] == {"axis": "time"}
    assert Workspace.objects.count() == 1


def test_each_person_has_their_own_and_a_viewer_too(as_: Any) -> None:
    assert as_("viewer")("PUT", PATH, {"state": STATE}).status_code == 200
    assert as_("mate")("GET", PATH).json()["state"] == {}
    assert as_("viewer")("GET", PATH).json()["state"] == STATE


def test_a_projects_layout_is_everybodys_and_saved_by_those_who_may_annotate(as_: Any) -> None:
    path = "/projects/default/layout"
    assert as_("viewer")("GET", path).json() == {"state": {}, "saved_at": None}
    assert as_("viewer")("PUT", path, {"state": STATE}).status_code == 403
    for state in ({"panels": {}}, STATE):
        assert as_("mate")("PUT", path, {"state": state}).json()["state"] == state
    assert as_("viewer")("GET", path).json()["state"] == STATE
    assert as_("mate")("GET", PATH).json()["state"] == {}, "nobody's own view has changed"
    assert Workspace.objects.count() == 1


def test_a_state_that_is_too_large_is_refused_and_the_former_stays(mate: Api) -> None:
    mate("PUT", PATH, {"state": STATE})
    refused = mate("PUT", PATH, {"state": {"filter": "x" * 65_536}})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["path"] == "state"
    assert "65,536" in refused.json()["detail"]
    assert mate("GET", PATH).json()["state"] == STATE
    fits = {"filter": "x" * (65_536 - len('{"filter": ""}'))}
    assert mate("PUT", PATH, {"state": fits}).status_code == 200


@pytest.mark.parametrize("body", [{}, {"state": []}, {"state": None}, {"state": {}, "more": 1}, "words"])
def test_what_is_no_state_is_refused(mate: Api, body: Any) -> None:
    assert mate("PUT", PATH, body).status_code == 422
    assert not Workspace.objects.exists()


@pytest.mark.parametrize(
    "body",
    [
        b'{"state": {"a": NaN}}',
        b'{"state": {"a": Infinity}}',
        b'{"state": {"a": "\\ud800"}}',
        b'{"state": {"\\udfff": 1}}',
        b'{"state": {"a": ' + b"[" * 5_000 + b"]" * 5_000 + b"}}",
    ],
)
def test_what_no_database_could_keep_is_refused(mate: Api, body: bytes) -> None:
    answer = mate("PUT", PATH, body)
    assert answer.status_code == 422, answer.content
    assert not Workspace.objects.exists()


def test_a_nul_is_kept_or_refused_as_the_database_can(mate: Api) -> None:
    assert mate("PUT", PATH, {"state": {"filter": "a\0b"}}).status_code in (200, 422)


def test_a_browser_needs_the_token_of_its_page(cast: Cast) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(cast.mate)
    answer = client.put(f"/api/v1{PATH}", {"state": STATE}, content_type="application/json")
    assert answer.status_code == 403
