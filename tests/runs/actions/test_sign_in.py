"""The first start, one-time links and tokens."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from runs import actions
from runs.actions import Refused
from runs.models import Cluster, Project, Role, SignInLink, Token, User
from runs.rights.access import NotFound, can, user_of_token
from tests.cast import Cast


@pytest.mark.django_db
def test_the_first_start_makes_a_person_a_project_and_a_cluster_once() -> None:
    owner = actions.first_start()
    assert owner is not None and not owner.has_usable_password()
    assert can(owner, Project.objects.get(name="default"), Role.OWNER)
    assert Cluster.objects.get().name == "local"
    assert actions.first_start() is None and User.objects.count() == 1


def test_a_link_signs_in_once(cast: Cast) -> None:
    secret = actions.make_sign_in_link(user=cast.mate)
    assert actions.use_sign_in_link(secret) == cast.mate
    assert actions.use_sign_in_link(secret) is None


def test_a_link_that_is_old_wrong_or_of_somebody_disabled_does_not(cast: Cast) -> None:
    secret = actions.make_sign_in_link(user=cast.mate)
    assert actions.use_sign_in_link("x") is None
    SignInLink.objects.update(expires_at=timezone.now())
    assert actions.use_sign_in_link(secret) is None
    secret = actions.make_sign_in_link(user=cast.mate)
    User.objects.filter(pk=cast.mate.pk).update(is_active=False)
    assert actions.use_sign_in_link(secret) is None


def test_a_token_is_its_owners_until_it_is_revoked(cast: Cast) -> None:
    token, secret = actions.create_token(actor=cast.mate, name="ci")
    assert user_of_token(secret) == cast.mate
    assert secret not in str(Token.objects.values().get())
    actions.revoke_token(actor=cast.mate, token_id=token.pk)
    assert user_of_token(secret) is None


def test_an_expired_token_and_one_of_somebody_disabled_open_nothing(cast: Cast) -> None:
    _, secret = actions.create_token(actor=cast.mate, name="x", expires_at=timezone.now() + timedelta(hours=1))
    Token.objects.update(expires_at=timezone.now())
    assert user_of_token(secret) is None
    _, secret = actions.create_token(actor=cast.mate, name="y")
    User.objects.filter(pk=cast.mate.pk).update(is_active=False)
    assert user_of_token(secret) is None and user_of_token("") is None


def test_somebody_elses_token_is_not_there_and_a_past_expiry_is_refused(cast: Cast) -> None:
    token, _ = actions.create_token(actor=cast.owner, name="x")
    with pytest.raises(NotFound):
        actions.revoke_token(actor=cast.mate, token_id=token.pk)
    with pytest.raises(Refused):
        actions.create_token(actor=cast.mate, name="x", expires_at=timezone.now())


def test_a_token_is_named_by_what_can_be_seen(cast: Cast) -> None:
    assert actions.create_token(actor=cast.mate, name="ci\u202e\u200b")[0].name == "ci"
    assert actions.create_token(actor=cast.mate, name="\u202e")[0].name == "token"
