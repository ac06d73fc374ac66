"""What a token made ends with it: tokens, down the chain, invitations and join tokens. Nothing of it lasts longer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from runs import actions
from runs.actions.people.ways_in import disable
from runs.models import Invitation, JoinToken, Role, Token, User
from runs.rights.access import Forbidden, NotFound, get_invitation, user_of_token
from tests.cast import Cast, make_user

Made = tuple[Token, dict[str, str]]


def acting(secret: str) -> User:
    user = user_of_token(secret)
    assert user is not None
    return user


@pytest.fixture
def made(cast: Cast) -> Made:
    """A token, and what it made: a token that made one of a service account, and what each of them may hand out."""
    token, secret = actions.create_token(actor=cast.owner, name="leaked")
    account = actions.create_service_account(actor=cast.owner, project=cast.project, name="ci", role=Role.MAINTAINER)
    _, child = actions.create_token(actor=acting(secret), name="child")
    _, grandchild = actions.create_token(actor=acting(child), name="grandchild", user=account)
    _, invitation = actions.invite(actor=acting(secret), project=cast.project, role=Role.OWNER)
    _, of_account = actions.invite(actor=acting(grandchild), project=cast.project, role=Role.VIEWER)
    _, join = actions.new_join_token(actor=acting(child), cluster=cast.cluster)
    return token, {"child": child, "grandchild": grandchild, "first": invitation, "second": of_account, "join": join}


def what_opens(secrets: dict[str, str]) -> set[str]:
    opens = {name for name in ("child", "grandchild") if user_of_token(secrets[name]) is not None}
    for name in ("first", "second"):
        with suppress(NotFound):
            get_invitation(secrets[name])
            opens.add(name)
    with suppress(Forbidden):
        actions.join_node(secret=secrets["join"], name="machine")
        opens.add("join")
    return opens


def revoke(cast: Cast, token: Token) -> None:
    actions.revoke_token(actor=cast.owner, token_id=token.pk)


def revoke_all(cast: Cast, token: Token) -> None:
    assert actions.revoke_tokens(actor=cast.owner, user=cast.owner) == 2  # of the person, the child among them


def revoke_in_the_administration(cast: Cast, token: Token) -> None:
    client = Client()
    client.force_login(make_user("root", is_staff=True, is_superuser=True))
    form = {"action": "revoke", "_selected_action": [token.pk]}
    assert client.post("/admin/runs/token/", form).status_code == 302


def delete(cast: Cast, token: Token) -> None:
    token.delete()


def take_out(cast: Cast, token: Token) -> None:
    disable(cast.owner)


def test_what_a_token_made_opens_what_it_may(made: Made, valkey: Any) -> None:
    assert what_opens(made[1]) == {"child", "grandchild", "first", "second", "join"}


@pytest.mark.parametrize("end", [revoke, revoke_all, revoke_in_the_administration, delete, take_out])
def test_what_a_token_made_ends_with_it_down_the_chain(
    cast: Cast, made: Made, end: Callable[[Cast, Token], None]
) -> None:
    token, secrets = made
    end(cast, token)
    assert what_opens(secrets) == set()
    assert not Invitation.objects.exists() and not JoinToken.objects.exists()


def test_what_a_person_made_in_a_session_stays_when_a_token_of_theirs_is_revoked(cast: Cast, made: Made) -> None:
    _, own = actions.create_token(actor=cast.owner, name="own")
    _, invitation = actions.invite(actor=cast.owner, project=cast.project, role=Role.OWNER)
    revoke(cast, made[0])
    assert user_of_token(own) == cast.owner and get_invitation(invitation).role == Role.OWNER


def test_nothing_that_a_token_makes_lasts_longer_than_it(cast: Cast) -> None:
    ends = timezone.now() + timedelta(minutes=5)
    _, secret = actions.create_token(actor=cast.owner, name="short", expires_at=ends)
    token, _ = actions.create_token(actor=acting(secret), name="child")
    invitation, _ = actions.invite(actor=acting(secret), project=cast.project, role=Role.MEMBER)
    join, _ = actions.new_join_token(actor=acting(secret), cluster=cast.cluster)
    assert (token.expires_at, invitation.expires_at, join.expires_at) == (ends, ends, ends)


def test_lists_say_by_which_token_a_thing_was_made(cast: Cast, made: Made) -> None:
    client = Client()
    client.force_login(cast.owner)
    account = " ".join(client.get("/account/").content.decode().split())
    assert "by token leaked" in account
    people = " ".join(client.get(f"/people/?project={cast.project.name}").content.decode().split())
    assert "with token leaked" in people and "with token grandchild" in people
    tokens = client.get("/api/v1/tokens").json()["items"]
    assert {one["name"]: one["made_by"] for one in tokens} == {"leaked": None, "child": made[0].pk}
    invitations = client.get(f"/api/v1/projects/{cast.project.pk}/invitations").json()["items"]
    assert made[0].pk in {one["made_by"] for one in invitations}
