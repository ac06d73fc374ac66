"""Rights that are taken from somebody while their request is being answered: it is finished first, or refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread, current_thread, main_thread
from typing import Any

import pytest
from django.db import connections

from runs import actions
from runs.actions import runs as actions_of_runs
from runs.actions.people import ways_in
from runs.models import Invitation, Membership, Role, Run, Token, User
from runs.rights import access
from runs.rights.access import Forbidden, NotFound, as_of_now, user_of_token
from tests.cast import Cast, make_user, spec

pytestmark = pytest.mark.usefixtures("valkey")


@contextmanager
def meanwhile(monkeypatch: pytest.MonkeyPatch, module: Any, check: str, act: Callable[[], object]) -> Iterator[None]:
    """Have somebody else act between the check and the write, or as soon after as they are let."""
    real = getattr(module, check)

    def run() -> None:
        try:
            act()
        finally:
            connections.close_all()

    other = Thread(target=run)

    def checked(*args: Any, **options: Any) -> Any:
        found = real(*args, **options)
        if current_thread() is main_thread() and other.ident is None:
            other.start()
            other.join(0.5)
        return found

    monkeypatch.setattr(module, check, checked)
    yield
    other.join(10)
    assert other.ident is not None and not other.is_alive()


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_an_invitation_that_is_made_while_its_makers_role_is_taken_is_void(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only useless: with the role back it would come to life again."""
    actions.change_role(actor=cast.owner, project=cast.project, user=cast.mate, role=Role.MAINTAINER)

    def remove() -> None:
        actions.remove_member(actor=cast.owner, project=cast.project, user=cast.mate)

    with meanwhile(monkeypatch, access, "require_grant", remove):
        actions.invite(actor=cast.mate, project=cast.project, role=Role.MEMBER)
    assert not Membership.objects.filter(user=cast.mate).exists()
    assert not Invitation.objects.exists()


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_two_administrators_who_are_disabled_at_once_are_not_the_last(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (make_user(name, is_superuser=True) for name in ("one", "other"))

    def disable_the_other() -> None:
        with pytest.raises(actions.Refused, match="last administrator"):
            ways_in.disable(other)

    with meanwhile(monkeypatch, ways_in, "refuse_last_administrator", disable_the_other):
        ways_in.disable(one)
    assert User.objects.filter(is_superuser=True, is_active=True).get() == other


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_a_member_who_is_removed_while_they_get_another_role_is_a_member_no_more(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove() -> None:
        Membership.objects.filter(user=cast.mate).delete()

    with meanwhile(monkeypatch, access, "require_grant", remove):
        actions.change_role(actor=cast.owner, project=cast.project, user=cast.mate, role=Role.MAINTAINER)
    assert not Membership.objects.filter(user=cast.mate).exists()


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_a_service_accounts_token_is_made_before_its_maker_loses_the_role_or_not_at_all(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    actions.change_role(actor=cast.owner, project=cast.project, user=cast.mate, role=Role.MAINTAINER)
    account = actions.create_service_account(actor=cast.mate, project=cast.project, name="ci", role=Role.MEMBER)

    def close() -> None:
        actions.close_service_account(actor=cast.owner, account=User.objects.get(pk=account.pk))

    with meanwhile(monkeypatch, access, "permissions_in", close):
        actions.create_token(actor=cast.mate, user=account, name="nightly")
    assert not Token.objects.filter(user=account, revoked_at=None).exists(), "the closing ends every token"


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_a_token_that_is_made_while_its_maker_is_revoked_opens_nothing(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, secret = actions.create_token(actor=cast.mate, name="leaked")

    def revoke() -> None:
        actions.revoke_token(actor=cast.mate, token_id=token.pk)

    with meanwhile(monkeypatch, ways_in, "_require_within", revoke):
        _, made = actions.create_token(actor=user_of_token(secret) or cast.mate, name="child")
    assert user_of_token(made) is None


@pytest.mark.parametrize("loss", ["role", "account", "token"])
def test_a_run_whose_code_took_long_to_fetch_is_not_queued_for_who_lost_the_right(
    cast: Cast, monkeypatch: pytest.MonkeyPatch, loss: str
) -> None:
    token, secret = actions.create_token(actor=cast.mate, name="x")
    actor = user_of_token(secret)
    assert actor is not None
    real = actions_of_runs.pin_code

    def fetch(**options: Any) -> Any:
        found = real(**options)
        if loss == "role":
            Membership.objects.filter(user=cast.mate).update(role=Role.VIEWER)
        elif loss == "account":
            User.objects.filter(pk=cast.mate.pk).update(is_active=False)
        else:
            actions.revoke_token(actor=cast.mate, token_id=token.pk)
        return found

    monkeypatch.setattr(actions_of_runs, "pin_code", fetch)
    with pytest.raises((Forbidden, NotFound)):
        actions.submit_run(actor=actor, document=spec())
    assert not Run.objects.exists()


def test_a_person_is_read_anew_with_their_token(cast: Cast) -> None:
    _, secret = actions.create_token(actor=cast.mate, name="x", scopes=["runs:read"])
    actor = user_of_token(secret)
    assert actor is not None
    now = as_of_now(actor)
    assert now == actor and now.token is not None and now.token.scopes == ["runs:read"]
    with pytest.raises(Forbidden, match="disabled"):
        as_of_now(make_user("gone", is_active=False))
