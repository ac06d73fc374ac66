"""What a person handed out opens nothing once they may no longer hand it out, and does not come to life again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from runs import actions
from runs.models import Invitation, JoinToken, Membership, Role, User
from runs.rights.access import Forbidden, NotFound, get_invitation
from tests.cast import Cast, make_user

Change = Callable[[Cast], Any]


@pytest.fixture
def maintainer(cast: Cast) -> User:
    actions.change_role(actor=cast.owner, project=cast.project, user=cast.mate, role=Role.MAINTAINER)
    return cast.mate


def remove(cast: Cast) -> None:
    actions.remove_member(actor=cast.owner, project=cast.project, user=cast.mate)


def leave(cast: Cast) -> None:
    actions.remove_member(actor=cast.mate, project=cast.project, user=cast.mate)


def demote(cast: Cast) -> None:
    actions.change_role(actor=cast.owner, project=cast.project, user=cast.mate, role=Role.MEMBER)


def disable(cast: Cast) -> None:
    User.objects.filter(pk=cast.mate.pk).update(is_active=False)


def delete(cast: Cast) -> None:
    User.objects.filter(pk=cast.mate.pk).delete()


def remove_by_hand(cast: Cast) -> None:
    Membership.objects.filter(user=cast.mate).delete()


@pytest.mark.parametrize("change", [remove, leave, demote, disable, delete, remove_by_hand])
def test_an_invitation_of_who_may_not_invite_any_more_lets_nobody_in(
    cast: Cast, maintainer: User, change: Change
) -> None:
    _, secret = actions.invite(actor=maintainer, project=cast.project, role=Role.MAINTAINER)
    _, of_owner = actions.invite(actor=cast.owner, project=cast.project, role=Role.MEMBER)
    change(cast)
    with pytest.raises(NotFound):
        get_invitation(secret)
    with pytest.raises(NotFound):
        actions.accept_invitation(secret=secret, user=cast.outsider)
    assert not Membership.objects.filter(user=cast.outsider).exists()
    actions.accept_invitation(secret=of_owner, user=cast.outsider)


@pytest.mark.parametrize("change", [remove, demote])
def test_the_role_back_does_not_bring_the_links_back(cast: Cast, maintainer: User, change: Change) -> None:
    _, secret = actions.invite(actor=maintainer, project=cast.project, role=Role.MEMBER)
    change(cast)
    Membership.objects.update_or_create(project=cast.project, user=maintainer, defaults={"role": Role.OWNER})
    with pytest.raises(NotFound):
        actions.accept_invitation(secret=secret, user=cast.outsider)


def test_an_owner_who_is_a_maintainer_now_keeps_what_a_maintainer_may_hand_out(cast: Cast, maintainer: User) -> None:
    actions.change_role(actor=cast.owner, project=cast.project, user=maintainer, role=Role.OWNER)
    _, to_owner = actions.invite(actor=maintainer, project=cast.project, role=Role.OWNER)
    _, to_member = actions.invite(actor=maintainer, project=cast.project, role=Role.MEMBER)
    actions.change_role(actor=cast.owner, project=cast.project, user=maintainer, role=Role.MAINTAINER)
    with pytest.raises(NotFound):
        get_invitation(to_owner)
    assert get_invitation(to_member).role == Role.MEMBER


def test_what_was_accepted_stays_as_history(cast: Cast, maintainer: User) -> None:
    _, secret = actions.invite(actor=maintainer, project=cast.project, role=Role.VIEWER)
    actions.accept_invitation(secret=secret, user=cast.outsider)
    remove(cast)
    assert Invitation.objects.get().accepted_by == cast.outsider


def test_an_administrator_invites_without_being_a_member(cast: Cast) -> None:
    root = make_user("root", is_superuser=True)
    _, secret = actions.invite(actor=root, project=cast.project, role=Role.OWNER)
    assert get_invitation(secret).role == Role.OWNER


@pytest.mark.parametrize("changes", [{"is_active": False}, {"is_staff": False}])
def test_a_join_token_of_who_manages_no_clusters_any_more_lets_no_machine_in(
    cast: Cast, changes: dict[str, bool]
) -> None:
    _, secret = actions.new_join_token(actor=cast.owner, cluster=cast.cluster)
    User.objects.filter(pk=cast.owner.pk).update(**changes)
    with pytest.raises(Forbidden):
        actions.join_node(secret=secret, name="gate-crasher")
    assert actions.void_handed_out() == 1 and not JoinToken.objects.exists()


def test_disabling_a_person_in_the_admin_voids_it_for_good(cast: Cast, maintainer: User) -> None:
    _, secret = actions.invite(actor=maintainer, project=cast.project, role=Role.MEMBER)
    client = Client()
    client.force_login(make_user("root", is_staff=True, is_superuser=True))
    form = {"username": "mate", "date_joined_0": "2026-01-01", "date_joined_1": "00:00:00"}
    answer = client.post(reverse("admin:runs_user_change", args=(maintainer.pk,)), form)  # without is_active
    assert answer.status_code == 302
    User.objects.update(is_active=True)
    with pytest.raises(NotFound):
        get_invitation(secret)
