"""Who sees and revokes whose tokens: in REST, in the admin, and when a password changes."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from runs import actions
from runs.models import Token, User
from runs.rights.access import Forbidden, NotFound, user_of_token
from tests.cast import Cast, make_user

pytestmark = pytest.mark.usefixtures("valkey")
PASSWORD = "correct horse battery"


@pytest.fixture
def root(cast: Cast) -> User:
    return make_user("root", is_staff=True, is_superuser=True)


def rest(actor: User, method: str, path: str) -> Any:
    _, secret = actions.create_token(actor=actor, name="asking")
    return Client().generic(method, f"/api/v1{path}", headers={"Authorization": f"Bearer {secret}"})


def test_an_administrator_sees_and_revokes_anybodys_token(cast: Cast, root: User) -> None:
    token, secret = actions.create_token(actor=cast.mate, name="CI")
    (found,) = rest(root, "GET", "/tokens?user=mate").json()["items"]
    assert (found["id"], found["user"]) == (token.pk, "mate")
    assert rest(root, "DELETE", f"/tokens/{token.pk}").status_code == 204
    assert user_of_token(secret) is None


def test_an_administrator_revokes_all_tokens_of_a_person(cast: Cast, root: User) -> None:
    secrets = [actions.create_token(actor=cast.mate, name=str(number))[1] for number in range(3)]
    assert rest(root, "DELETE", "/tokens?user=mate").json() == {"revoked": 3}
    assert [user_of_token(secret) for secret in secrets] == [None] * 3
    assert Token.objects.filter(user=root, revoked_at=None).exists()


def test_a_person_revokes_all_of_their_own(cast: Cast) -> None:
    _, of_owner = actions.create_token(actor=cast.owner, name="x")
    actions.create_token(actor=cast.mate, name="x")
    assert rest(cast.mate, "DELETE", "/tokens").json() == {"revoked": 2}
    assert user_of_token(of_owner) == cast.owner


@pytest.mark.parametrize("name", ["owner", "mate"])  # the owner is staff, and no administrator
def test_nobody_else_does(cast: Cast, name: str) -> None:
    token, secret = actions.create_token(actor=cast.viewer, name="x")
    actor = getattr(cast, name)
    for method, path in (("GET", "/tokens?user=viewer"), ("DELETE", "/tokens?user=viewer"), ("GET", "/tokens?user=no")):
        assert rest(actor, method, path).status_code == 404
    assert rest(actor, "DELETE", f"/tokens/{token.pk}").status_code == 404
    with pytest.raises(NotFound):
        actions.revoke_token(actor=actor, token_id=token.pk)
    with pytest.raises(Forbidden):
        actions.revoke_tokens(actor=actor, user=cast.viewer)
    assert user_of_token(secret) == cast.viewer


def admin_action(actor: User, model: str, action: str, pk: object) -> Client:
    client = Client()
    client.force_login(actor)
    path = reverse(f"admin:runs_{model}_changelist")
    client.post(path, {"action": action, "_selected_action": [str(pk)]}, follow=True)
    return client


def test_the_admin_revokes_tokens_for_administrators_alone(cast: Cast, root: User) -> None:
    token, secret = actions.create_token(actor=cast.mate, name="CI")
    admin_action(cast.owner, "token", "revoke", token.pk)
    admin_action(cast.owner, "user", "revoke_all_tokens", cast.mate.pk)
    assert user_of_token(secret) == cast.mate
    admin_action(root, "token", "revoke", token.pk)
    assert user_of_token(secret) is None
    _, secret = actions.create_token(actor=cast.mate, name="CI")
    admin_action(root, "user", "revoke_all_tokens", cast.mate.pk)
    assert user_of_token(secret) is None


def test_a_password_that_the_admin_sets_says_how_many_tokens_still_work(cast: Cast, root: User) -> None:
    _, secret = actions.create_token(actor=cast.mate, name="CI")
    mate = Client()
    mate.force_login(cast.mate)
    client = Client()
    client.force_login(root)
    path = reverse("admin:auth_user_password_change", args=(cast.mate.pk,))
    form = {"usable_password": "true", "password1": PASSWORD, "password2": PASSWORD}
    text = client.post(path, form, follow=True).content.decode()
    assert "Of mate 1 token still works" in text
    assert user_of_token(secret) == cast.mate and mate.get("/account/").status_code == 302


def test_who_sets_a_password_is_told_how_many_tokens_still_work_and_may_revoke_them(cast: Cast) -> None:
    secrets = [actions.create_token(actor=cast.mate, name="x")[1] for _ in range(2)]
    client = Client()
    client.force_login(cast.mate)
    text = client.post("/account/password/", {"password": PASSWORD}).content.decode()
    assert "2 tokens of yours still work:" in text and "/account/tokens/revoke/" in text
    assert user_of_token(secrets[0]) == cast.mate
    said = client.post("/account/tokens/revoke/", headers={"X-Requested-With": "fetch"}).json()["sentence"]
    assert said == "Revoked 2 tokens: they open nothing any more."
    assert [user_of_token(secret) for secret in secrets] == [None, None]
    assert "still work" not in client.post("/account/password/", {"password": PASSWORD}).content.decode()


def test_a_new_password_ends_links_that_were_made_before(cast: Cast) -> None:
    secret = actions.make_sign_in_link(user=cast.mate)
    actions.set_password(actor=cast.mate, password=PASSWORD)
    assert actions.use_sign_in_link(secret) is None
