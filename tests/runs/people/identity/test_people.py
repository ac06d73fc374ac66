"""Who signs in through a provider, and what their groups give them."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group

from runs.actions import Refused, create_token, invite, set_password, sign_in
from runs.models import BrowserSession, GroupRole, Identity, Invitation, Project, Role, Token, User
from runs.people.identity.checking import Arrival, keep_for_checks
from runs.people.identity.people import NotAdmitted, connect, disconnect, person_of, reconcile_roles
from runs.people.identity.providers import Claims, GroupRoleSetting, Provider, SignInSettings
from runs.people.identity.sessions import begin_session
from runs.rights.access import Permission, can
from tests.cast import Cast, make_user
from tests.runs.people.identity.test_claims import provider

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey")]
ANN = Claims("7", "ann@example.com", True, "ann", "Ann", "Archer", frozenset({"ml", "chess"}))


def with_roles(*roles: tuple[str, str, str], **changes: Any) -> Provider:
    return provider(create_people=True, roles=tuple(GroupRoleSetting(*one) for one in roles), **changes)


def test_a_new_person_is_made_where_the_provider_may_and_found_again(cast: Cast) -> None:
    user = person_of(provider(create_people=True), ANN)
    assert (user.username, user.email, user.get_full_name()) == ("ann", "ann@example.com", "Ann Archer")
    assert not user.has_usable_password() and not user.is_staff
    assert person_of(provider(), ANN) == user
    assert User.objects.count() == 5


def test_nobody_is_made_where_the_provider_may_not(cast: Cast) -> None:
    with pytest.raises(NotAdmitted, match="Ask for an invitation"):
        person_of(provider(), ANN)
    assert not Identity.objects.exists()


def test_a_name_that_is_taken_opens_nothing_of_who_has_it(cast: Cast) -> None:
    taken = make_user("Ann")
    user = person_of(provider(create_people=True), ANN)
    assert user.username == "ann-2" and user != taken


def test_the_subject_counts_and_not_the_address(cast: Cast) -> None:
    first = person_of(provider(create_people=True), ANN)
    other = person_of(provider(create_people=True), Claims("8", "ann@example.com", True, "ann"))
    assert other != first


def test_an_existing_person_is_linked_only_by_a_trusted_provider_and_a_verified_address(cast: Cast) -> None:
    bob = make_user("bob", email="Ann@example.com")
    unverified = Claims("7", "ann@example.com", False, "ann")
    assert person_of(provider(create_people=True), ANN) != bob
    Identity.objects.all().delete()
    User.objects.filter(username="ann").delete()
    assert person_of(provider(create_people=True, link_by_email=True), unverified) != bob
    Identity.objects.all().delete()
    User.objects.filter(username="ann").delete()
    bob.set_password("what somebody else may know")
    bob.save()
    create_token(actor=bob, name="made before")
    assert person_of(provider(link_by_email=True), ANN) == bob
    bob.refresh_from_db()
    assert not bob.has_usable_password() and not Token.objects.filter(user=bob, revoked_at=None).exists()


def test_an_administrator_is_not_linked_by_an_address(cast: Cast) -> None:
    make_user("root", email="ann@example.com", is_superuser=True)
    with pytest.raises(NotAdmitted):
        person_of(provider(link_by_email=True), ANN)


def test_a_disabled_person_does_not_get_in(cast: Cast) -> None:
    user = person_of(provider(create_people=True), ANN)
    User.objects.filter(pk=user.pk).update(is_active=False)
    with pytest.raises(NotAdmitted, match="disabled"):
        person_of(provider(create_people=True), ANN)


def test_a_signed_in_person_connects_an_account_and_disconnects_it(cast: Cast) -> None:
    connect(provider(), ANN, cast.mate)
    assert person_of(provider(), ANN) == cast.mate
    with pytest.raises(NotAdmitted, match="somebody else"):
        connect(provider(), ANN, cast.viewer)
    disconnect("corp", cast.mate)
    with pytest.raises(NotAdmitted):
        person_of(provider(), ANN)


def may(user: User, project: Project, permission: Permission) -> bool:
    return can(User.objects.get(pk=user.pk), project, permission)


def test_groups_give_the_roles_of_the_settings_and_take_them_away_again(cast: Cast) -> None:
    corp = with_roles(("ml", "default", "member"), ("unknown", "default", "owner"))
    user = person_of(corp, ANN)
    assert may(user, cast.project, Permission.RUNS_LAUNCH) and not may(user, cast.project, Permission.MEMBERS_MANAGE)
    assert {group.name for group in user.groups.all()} == {"corp: ml"}
    person_of(corp, Claims("7", "ann@example.com", True))
    assert not user.groups.exists() and not may(user, cast.project, Permission.RUNS_READ)


def test_roles_and_groups_that_were_given_by_hand_stay(cast: Cast) -> None:
    corp = with_roles(("ml", "default", "member"))
    connect(corp, ANN, cast.viewer)
    by_hand = Group.objects.create(name="by hand")
    cast.viewer.groups.add(by_hand)
    assert may(cast.viewer, cast.project, Permission.RUNS_LAUNCH)
    person_of(corp, Claims("7"))
    assert list(cast.viewer.groups.all()) == [by_hand]
    assert may(cast.viewer, cast.project, Permission.RUNS_READ)
    assert not may(cast.viewer, cast.project, Permission.RUNS_LAUNCH)


def test_what_the_settings_say_now_counts(cast: Cast) -> None:
    user = person_of(with_roles(("ml", "default", "owner"), ("ml", "nosuch", "member")), ANN)
    assert may(user, cast.project, Permission.OWNERS_MANAGE)
    person_of(with_roles(("ml", "default", "viewer"), ("ml", "default2", "captain")), ANN)
    assert may(user, cast.project, Permission.RUNS_READ) and not may(user, cast.project, Permission.RUNS_LAUNCH)
    assert GroupRole.objects.count() == 1


def test_a_group_of_that_name_made_by_hand_is_not_taken_over(cast: Cast) -> None:
    mine = Group.objects.create(name="corp: ml")
    GroupRole.objects.create(group=mine, project=cast.project, role="owner")
    user = person_of(with_roles(("ml", "default", "viewer")), ANN)
    assert mine not in user.groups.all() and not may(user, cast.project, Permission.RUNS_LAUNCH)


def test_a_person_whom_a_provider_keeps_has_no_other_way_in(cast: Cast, settings: Any) -> None:
    corp, other = provider(create_people=True), provider(id="other", name="Other")
    settings.SIGN_IN = SignInSettings(providers=(other, corp))
    user = person_of(corp, ANN)
    with pytest.raises(NotAdmitted, match="through it alone"):
        connect(other, ANN, user)
    Identity.objects.create(user=user, provider="other", subject="connected in an earlier version")
    with pytest.raises(NotAdmitted, match="through it alone"):
        person_of(other, Claims("connected in an earlier version"))
    for _ in ("alone", "with a password that an earlier version let them have"):
        with pytest.raises(Refused, match="keeps your account"):
            disconnect("corp", user)
        with pytest.raises(Refused, match="keeps your account"):
            set_password(actor=user, password="correct horse battery")
        with pytest.raises(NotAdmitted, match="keeps your account"):
            connect(corp, Claims("an accomplice's"), user)
        user.set_password("correct horse battery")
        user.save()
    assert sign_in(username="ann", password="correct horse battery", address="127.0.0.1") is None
    settings.SIGN_IN = SignInSettings()
    assert sign_in(username="ann", password="correct horse battery", address="127.0.0.1") == user


def test_what_a_forgotten_provider_gave_is_taken_back(cast: Cast) -> None:
    ours = with_roles(("ml", "default", "maintainer"))
    connect(ours, ANN, cast.outsider)
    session = begin_session(user=cast.outsider, session_key="k", method="corp", address="", agent="")
    keep_for_checks(session, ours, Arrival("corp", "7", ""))
    invite(actor=User.objects.get(pk=cast.outsider.pk), project=cast.project, role=Role.VIEWER)
    disconnect("corp", cast.outsider)
    assert not BrowserSession.objects.filter(user=cast.outsider).exists() and not Invitation.objects.exists()


def roles_of(user: User) -> set[tuple[str, str]]:
    return {(row.project.name if row.project else "", row.role) for row in GroupRole.objects.filter(group__user=user)}


def test_a_role_that_left_the_settings_is_taken_from_who_has_it_and_given_to_nobody(cast: Cast) -> None:
    person = person_of(with_roles(("ml", "default", "owner")), ANN)
    by_hand = Project.objects.create(name="by-hand")
    group = person.groups.get()
    without = with_roles(("others", "default", "viewer"))
    reconcile_roles([with_roles(("ml", "default", "owner"))])
    assert roles_of(person) == {("default", "owner")}
    GroupRole.objects.create(group=group, project=by_hand, role="viewer")
    reconcile_roles([without])
    assert roles_of(person) == {("by-hand", "viewer")}
    other = person_of(without, Claims("8", "bob@example.com", True, "bob", groups=frozenset({"ml"})))
    assert roles_of(other) == {("by-hand", "viewer")}


def test_the_longest_names_of_a_provider_and_its_group_fit_where_a_role_comes_from(cast: Cast) -> None:
    corp = with_roles(("g" * 100, "default", "viewer"), id="p" * 40)
    person_of(corp, Claims("7", "ann@example.com", True, "ann", groups=frozenset({"g" * 100})))
    GroupRole.objects.get().full_clean()


def test_roles_of_a_provider_that_left_the_settings_go(cast: Cast) -> None:
    person = person_of(with_roles(("ml", "default", "owner")), ANN)
    assert roles_of(person) == {("default", "owner")}
    reconcile_roles([])
    assert roles_of(person) == set()
