"""A proof that the person is there is asked for by the action, whichever way it is called."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from runs import actions
from runs.models import ProvisioningToken, Role, Token, User
from runs.people.identity.providers import SignInSettings
from runs.rights.access import Forbidden, is_present
from tests.cast import Cast, make_user
from tests.dashboard.pages.account.test_security import make_stale
from tests.runs.people.identity.test_claims import provider

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey")]
JSON = "application/json"


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def call(client: Client, path: str, body: dict[str, Any]) -> Any:
    if not path.startswith("/api/"):
        return client.post(path, body)
    return client.post(path, body, content_type=JSON)


FAR = "2999-01-01T00:00:00Z"
PASSWORD = {"password": "correct horse battery"}
CALLS = {
    "erase me, REST": ("mate", "/api/v1/me/erase", {"confirm": "mate"}),
    "erase me": ("mate", "/account/data/erase/", {"confirm": "mate"}),
    "erase another, REST": ("root", "/api/v1/people/mate/erase", {"confirm": "mate"}),
    "a token without an end, REST": ("mate", "/api/v1/tokens", {"name": "x"}),
    "a token with an end that nobody sees, REST": ("mate", "/api/v1/tokens", {"name": "x", "expires_at": FAR}),
    "a token without an end": ("mate", "/account/tokens/", {"name": "x", "days": ""}),
    "a service account's": ("owner", "/api/v1/projects/default/service-accounts/default.ci/tokens", {"name": "x"}),
    "a first password": ("mate", "/account/password/", PASSWORD),
    "a SCIM token": ("root", "/people/sign-in/scim-tokens/", {"provider": "corp"}),
    "a first factor": ("mate", "/account/security/app/", {"code": "000000"}),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_stale_session_does_nothing_that_cannot_be_undone_or_opens_a_door_for_good(
    cast: Cast, settings: Any, name: str
) -> None:
    settings.SIGN_IN = SignInSettings(providers=(provider(),))
    make_user("root", is_superuser=True)
    actions.create_service_account(actor=cast.owner, project=cast.project, name="ci", role=Role.MEMBER)
    who, path, body = CALLS[name]
    client = signed_in(User.objects.get(username=who))
    make_stale(client)
    answer = call(client, path, body)
    assert answer.status_code == 403 or answer["Location"].startswith("/sign-in/second/")
    mate = User.objects.get(username="mate")
    assert not mate.has_usable_password()
    assert not Token.objects.exists() and not ProvisioningToken.objects.exists()


def test_a_proof_of_a_clock_that_was_put_back_is_none(cast: Cast) -> None:
    cast.mate.proved_at = time.time() + 3600
    assert not is_present(cast.mate)


def test_whoever_signed_in_a_moment_ago_does(cast: Cast) -> None:
    client = signed_in(cast.mate)
    assert client.post("/account/tokens/", {"name": "x", "days": ""}).status_code == 200
    assert call(client, "/account/data/erase/", {"confirm": "mate"}).status_code == 200
    assert not User.objects.filter(username="mate").exists()


def test_whoever_connects_an_account_goes_on_with_it_after_the_proof(cast: Cast, settings: Any) -> None:
    settings.SIGN_IN = SignInSettings(providers=(provider(),))
    client = signed_in(cast.mate)
    link = re.search(r"/sign-in/with/corp/[?]connect=\w+", client.get("/account/security/").content.decode())
    make_stale(client)
    assert link
    asked = urlsplit(client.get(link[0])["Location"])
    assert asked.path == "/sign-in/second/" and parse_qs(asked.query)["next"] == [link[0]]


PAGES = {
    "another's password": ("auth_user_password_change", {"password1": "correct horse", "password2": "correct horse"}),
    "another's rights": ("runs_user_change", {"username": "mate", "is_superuser": "on"}),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_stale_session_makes_nobody_more_powerful_in_the_administration(cast: Cast, name: str) -> None:
    root, before = make_user("root", is_staff=True, is_superuser=True), User.objects.get(username="mate")
    page, form = PAGES[name]
    address = reverse(f"admin:{page}", args=(cast.mate.pk,))
    client = signed_in(root)
    make_stale(client)
    assert client.get(address).status_code == 200, "to look is free"
    assert client.post(address, form)["Location"].startswith("/sign-in/second/?next=")
    after = User.objects.get(username="mate")
    assert (after.password, after.is_superuser) == (before.password, False)


def test_everything_that_the_administration_edits_is_edited_by_somebody_who_is_there(cast: Cast) -> None:
    client = signed_in(make_user("root", is_staff=True, is_superuser=True))
    make_stale(client)
    asked = 0
    for model in admin.site._registry:
        address = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_add")
        answer = client.post(address, {})
        assert answer.status_code == 403 or answer["Location"].startswith("/sign-in/second/"), address
        asked += answer.status_code == 302
    assert asked >= 7


def test_no_token_erases_its_person_or_others(cast: Cast) -> None:
    root = make_user("root", is_superuser=True)
    for user, path in ((cast.mate, "me"), (root, "people/mate")):
        _, secret = actions.create_token(actor=user, name="CI")
        client = Client(headers={"Authorization": f"Bearer {secret}"})
        assert call(client, f"/api/v1/{path}/erase", {"confirm": "mate"}).status_code == 403
    assert User.objects.filter(username="mate", is_active=True).exists()


@pytest.mark.parametrize("scopes", [None, ["account:write"]])
def test_a_token_that_ends_makes_none_that_lasts_longer(cast: Cast, scopes: list[str] | None) -> None:
    soon = timezone.now() + timedelta(minutes=5)
    cast.mate.token, _ = actions.create_token(actor=cast.mate, name="short", scopes=scopes, expires_at=soon)
    more: dict[str, Any] = {"actor": cast.mate, "name": "y", "scopes": scopes}
    made, _ = actions.create_token(**more)
    assert made.expires_at == soon
    with pytest.raises(Forbidden, match="ends before that"):
        actions.create_token(**more, expires_at=soon + timedelta(days=1))
