"""Secrets that travel: none opens anything from an address, none is sent on to others by a browser, and none is kept in
a log, the audit or a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.apps import apps
from django.contrib.sessions.models import Session
from django.test import Client
from structlog.testing import capture_logs

from runs import actions
from runs.models import GitKey, Role, Run
from tests.cast import Cast, make_run, make_user

pytestmark = pytest.mark.usefixtures("valkey")
SAFE = {"no-referrer", "same-origin"}  # what another site may not be told


@pytest.fixture
def client() -> Client:
    return Client(raise_request_exception=False)


@pytest.mark.parametrize("name", ["token", "access_token", "api_key", "authorization", "Authorization", "bearer"])
def test_a_token_in_an_address_opens_nothing(cast: Cast, client: Client, name: str) -> None:
    _, secret = actions.create_token(actor=cast.owner, name="x")
    for value in (secret, f"Bearer {secret}"):
        assert client.get("/api/v1/runs", {name: value}).status_code == 401
        assert client.post(f"/api/v1/runs?{name}={value}", {}, content_type="application/json").status_code == 401
        assert client.get("/runs/", {name: value}).status_code == 302


def links(cast: Cast) -> dict[str, str]:
    _, invitation = actions.invite(actor=cast.owner, project=cast.project, role=Role.VIEWER)
    return {
        "sign-in": f"/sign-in/{actions.make_sign_in_link(user=cast.mate)}/",
        "invitation": f"/invitations/{invitation}/",
        "used": f"/sign-in/{'x' * 43}/",
        "shared": "/"
        + actions.share(actor=cast.mate, name=f"run/{make_run(cast).pk}")[1].partition("//")[2].partition("/")[2],
    }


@pytest.mark.parametrize("kind", ["sign-in", "invitation", "used", "shared"])
def test_a_page_behind_a_secret_address_names_it_to_no_other_site_and_is_kept_by_no_cache(
    cast: Cast, client: Client, kind: str
) -> None:
    answer = client.get(links(cast)[kind])
    assert answer["Referrer-Policy"] in SAFE
    assert "no-store" in answer.get("Cache-Control", "")


def secrets_of(cast: Cast, run: Run) -> dict[str, str]:
    """Make one of every kind, over REST where that is how people make it."""
    account = actions.create_service_account(actor=cast.owner, project=cast.project, name="ci", role=Role.VIEWER)
    kind = GitKey.Kind.TOKEN
    actions.add_git_key(actor=cast.owner, project=cast.project, kind=kind, place="example.org", secret="git-secret-1")
    actions.set_secret(actor=cast.owner, project=cast.project, name="KEY", value="secret-value-2")
    root = make_user("root", is_staff=True, is_superuser=True)
    found = {
        "token": actions.create_token(actor=cast.owner, name="x")[1],
        "account": actions.create_token(actor=cast.owner, user=account, name="x")[1],
        "invitation": actions.invite(actor=cast.owner, project=cast.project, role=Role.VIEWER)[1],
        "join": actions.new_join_token(actor=root, cluster=cast.cluster)[1],
        "link": actions.make_sign_in_link(user=cast.mate),
        "git": "git-secret-1",
        "value": "secret-value-2",
    }
    return found


def test_no_secret_is_in_a_log_the_audit_or_a_row(
    cast: Cast, client: Client, make_run: Callable[..., Run], caplog: pytest.LogCaptureFixture
) -> None:
    run = make_run()
    caplog.set_level("DEBUG")
    with capture_logs() as entries:
        found = secrets_of(cast, run)
        headers = {"Authorization": f"Bearer {found['token']}", "Idempotency-Key": "once"}
        made = client.post("/api/v1/tokens", {"name": "y"}, content_type="application/json", headers=headers)
        assert made.status_code == 201
        found["over REST"] = made.json()["secret"]
        for path in (f"/sign-in/{found['link']}/", f"/invitations/{found['invitation']}/"):
            client.get(path + "%00/")
            client.get(path, headers={"Host": "other.example"})
            client.get(path)
            client.post(path, {"username": "new\0"})
        body = {"token": found["join"], "name": "gate", "address": "not one", "slots": 0}
        client.post("/api/v1/nodes/join", body, content_type="application/json")
        client.get(f"/api/v1/runs/{found['token']}", headers={"Authorization": f"Bearer {found['token']}x"})
    logged = repr(entries) + caplog.text
    stored = "\n".join(rows())
    for name, secret in found.items():
        assert secret not in logged, f"{name} is in a log"
        assert secret not in stored, f"{name} is in a row"


def rows() -> Iterator[str]:
    for model in apps.get_models():
        if model is not Session:
            for row in model._default_manager.values():
                yield f"{model.__name__} {row}"
