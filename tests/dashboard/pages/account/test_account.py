"""One's own account."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from runs.actions import create_token
from runs.models import Identity, Token, User
from runs.people.identity.providers import SignInSettings
from runs.rights.access import user_of_token
from tests.cast import Cast
from tests.runs.people.identity.test_claims import provider

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey")]
AsUser = Callable[[User], Client]
PASSWORD = "correct horse battery"


def test_a_token_works_and_is_shown_once(as_user: AsUser, cast: Cast) -> None:
    client = as_user(cast.mate)
    answer = client.post("/account/tokens/", {"name": "CI", "days": "30"})
    found = re.search(r"ty_[\w-]+", answer.content.decode())
    assert found and user_of_token(found[0]) == cast.mate
    assert answer["Cache-Control"] == "no-store"
    assert found[0] not in client.get("/account/").content.decode()
    expires_at = Token.objects.get().expires_at
    assert expires_at is not None and timedelta(days=29) < expires_at - timezone.now() < timedelta(days=31)


def test_a_token_without_a_name_is_refused_beside_the_field(as_user: AsUser, cast: Cast) -> None:
    answer = as_user(cast.mate).post("/account/tokens/", {"name": " ", "days": "30"})
    assert answer.status_code == 422 and b"Say what it is for." in answer.content and not Token.objects.exists()


def test_a_scope_that_no_check_box_offers_is_refused_by_name(as_user: AsUser, cast: Cast) -> None:
    answer = as_user(cast.mate).post("/account/tokens/", {"name": "CI", "scope": "runs:own"})
    assert answer.status_code == 422 and b"There is no scope &#x27;runs:own&#x27;" in answer.content
    assert not Token.objects.exists()


def test_a_revoked_token_opens_nothing(as_user: AsUser, cast: Cast) -> None:
    token, secret = create_token(actor=cast.mate, name="CI")
    as_user(cast.mate).post(f"/account/tokens/{token.pk}/revoke/")
    assert user_of_token(secret) is None


def test_nobody_revokes_anybody_elses(as_user: AsUser, cast: Cast) -> None:
    token, secret = create_token(actor=cast.mate, name="<b>secret name")
    client = as_user(cast.owner)
    assert client.post(f"/account/tokens/{token.pk}/revoke/").status_code == 404
    assert user_of_token(secret) == cast.mate and b"secret name" not in client.get("/account/").content
    assert b"&lt;b&gt;secret name" in as_user(cast.mate).get("/account/").content


def test_a_first_password_is_set_and_this_session_stays(as_user: AsUser, cast: Cast) -> None:
    client = as_user(cast.mate)
    assert b"Your password is set" in client.post("/account/password/", {"password": PASSWORD}).content
    assert client.get("/account/").status_code == 200
    cast.mate.refresh_from_db()
    assert cast.mate.check_password(PASSWORD)


def test_a_change_needs_the_present_password_and_ends_other_sessions(as_user: AsUser, cast: Cast) -> None:
    cast.mate.set_password(PASSWORD)
    cast.mate.save()
    client, elsewhere = as_user(cast.mate), as_user(cast.mate)
    refused = client.post("/account/password/", {"password": "another long one", "current": "wrong"})
    assert refused.status_code == 422 and b"This is not your password." in refused.content
    client.post("/account/password/", {"password": "another long one", "current": PASSWORD})
    assert client.get("/account/").status_code == 200 and elsewhere.get("/account/").status_code == 302


def test_a_weak_password_is_refused_beside_the_field(as_user: AsUser, cast: Cast) -> None:
    answer = as_user(cast.mate).post("/account/password/", {"password": "12345678"})
    assert answer.status_code == 422 and b"too common" in answer.content
    cast.mate.refresh_from_db()
    assert not cast.mate.has_usable_password()


def test_a_person_corrects_what_they_are_called_and_keeps_the_user_name(as_user: AsUser, cast: Cast) -> None:
    client = as_user(cast.mate)
    assert client.post("/account/name/", {"name": "  Ada   Lovelace "}).status_code == 302
    page = client.get("/account/").content
    assert b"You are called Ada Lovelace." in page and b'value="Ada Lovelace"' in page
    cast.mate.refresh_from_db()
    assert (str(cast.mate), cast.mate.username) == ("Ada Lovelace", "mate")
    client.post("/account/name/", {"name": ""})
    assert b"You are called mate." in client.get("/account/").content


@pytest.mark.parametrize("name", ["OWNER", "The  Boss", "The\u202e Bo\u200bss"])
def test_what_another_person_is_called_is_refused_beside_the_field(as_user: AsUser, cast: Cast, name: str) -> None:
    User.objects.filter(pk=cast.owner.pk).update(first_name="The", last_name="Boss")
    answer = as_user(cast.mate).post("/account/name/", {"name": name})
    assert answer.status_code == 422 and b"Another person is called so." in answer.content
    assert b'<h1 class="break">mate</h1>' in answer.content
    cast.mate.refresh_from_db()
    assert str(cast.mate) == "mate"


def test_a_name_that_a_provider_keeps_is_refused(as_user: AsUser, cast: Cast, settings: Any) -> None:
    settings.SIGN_IN = SignInSettings(providers=(provider(id="corp"),))
    Identity.objects.create(user=cast.mate, provider="corp", subject="1", is_provisioned=True, keeps_person=True)
    answer = as_user(cast.mate).post("/account/name/", {"name": "Ada"})
    assert answer.status_code == 409 and b"keeps your account: your name is changed there." in answer.content
