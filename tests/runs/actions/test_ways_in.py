"""What lets a person in ends with every way of taking them out, and one table knows all of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.apps import apps
from django.db.models import ForeignKey, OneToOneField
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from runs import actions
from runs.actions.people.ways_in import WAYS_IN, disable, end_ways_in
from runs.models import BrowserSession, Identity, Invitation, JoinToken, NoticeRule, ProvisioningToken, Role, User
from runs.models.notices import Where
from runs.people.identity.people import person_of
from runs.people.identity.providers import Claims, Provider, SignInSettings
from runs.people.identity.sessions import begin_session
from runs.people.scim.views import create_provisioning_token, provider_of
from tests.cast import Cast, make_run, make_user
from tests.runs.people.identity.test_claims import provider

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey")]

# Columns with a person that let nobody in: what is theirs, and who did something. A new column stands here or is a way
# in.
LETS_NOBODY_IN = {
    "admin.LogEntry.user",
    "account.EmailAddress.user",  # allauth's tables, which this site does not use
    "socialaccount.SocialAccount.user",
    "runs.User_groups.user",  # roles: they say what is open to who is in
    "runs.User_user_permissions.user",
    "runs.Membership.user",
    "runs.Workspace.user",
    "runs.SavedView.owner",
    "runs.Following.user",
    "runs.Invitation.accepted_by",
    "runs.IdempotencyKey.user",  # answers for who is in already
    "runs.PersonalExport.user",
    "runs.Consent.user",
    "runs.Secret.person",  # go to runs that the person launches
    *(
        f"runs.{model}.created_by"
        for model in (
            "Job",
            "CodeBundle",
            "GitKey",
            "Run",
            "Dataset",
            "SavedView",
            "Secret",
            "SecretVersion",
            "Sweep",
            "Report",
        )
    ),
    "runs.ReportVersion.author",
    "runs.ReportComment.author",
    "runs.Event.actor",
    "runs.Preflight.asked_by",
}


def test_every_column_with_a_person_is_in_the_table_of_ways_in_or_lets_nobody_in() -> None:
    columns = {
        f"{model._meta.label}.{field.name}"
        for model in apps.get_models(include_auto_created=True)
        for field in model._meta.get_fields()
        if isinstance(field, ForeignKey | OneToOneField) and field.related_model is User
    }
    ways = {f"{way.model._meta.label}.{way.user}" for way in WAYS_IN}
    assert ways | LETS_NOBODY_IN == columns and not ways & LETS_NOBODY_IN


@pytest.fixture
def corp(settings: Any) -> Provider:
    one = provider(create_people=True)
    settings.SIGN_IN = SignInSettings(providers=(one, provider(id="other", name="Other")))
    return one


@pytest.fixture
def person(cast: Cast, corp: Provider) -> User:
    """An administrator with everything that lets anybody in."""
    user = make_user("ann", is_superuser=True)
    make_user("root", is_superuser=True)
    user.set_password("correct horse battery")
    user.save()
    begin_session(user=user, session_key="elsewhere", method="", address="", agent="")
    actions.create_token(actor=user, name="x")
    actions.make_sign_in_link(user=user)
    actions.invite(actor=user, project=cast.project, role=Role.VIEWER)
    JoinToken.objects.create(
        cluster=cast.cluster, digest="1", created_by=user, expires_at=timezone.now() + timedelta(hours=1)
    )
    actions.share(actor=user, name=f"run/{make_run(cast).pk}")
    create_provisioning_token(actor=user, provider=corp)
    Identity.objects.create(user=user, provider="corp", subject="7")
    NoticeRule.objects.create(owner=user, where=Where.EMAIL)
    Authenticator.objects.create(user=user, type=Authenticator.Type.TOTP, data={"secret": "s"})
    return user


def left(user: User) -> set[str]:
    """Return the names of the ways in that are there and open something."""
    found = set()
    for way in WAYS_IN:
        rows = way.model._default_manager.filter(**{way.user: user})
        if {"revoked_at"} & {field.name for field in way.model._meta.get_fields()}:
            rows = rows.filter(revoked_at=None)
        if rows.exists():
            found.add(way.model.__name__)
    return found


def test_whoever_is_disabled_keeps_what_says_who_they_are_and_nothing_that_opens(person: User) -> None:
    assert left(person) == {way.model.__name__ for way in WAYS_IN}
    disable(person)
    assert left(person) == {"Identity", "Authenticator", "NoticeRule"} and not person.has_usable_password()


def test_an_account_that_is_handed_over_keeps_nothing(person: User) -> None:
    end_ways_in(person, is_handed_over=True)
    assert left(person) == set() and not person.has_usable_password()


def test_a_sign_in_that_waits_for_its_second_factor_ends_with_all_else(person: User) -> None:
    client = Client()
    client.post(reverse("sign-in"), {"username": "ann", "password": "correct horse battery"})
    assert "second" in client.get(reverse("second-factor-step")).content.decode()
    end_ways_in(person)
    assert client.get(reverse("second-factor-step")).status_code == 302


def test_an_invited_address_opens_nothing_once_its_owner_arrives(cast: Cast, settings: Any) -> None:
    """Somebody is invited under an address that is not theirs, connects an account elsewhere and sets up a factor."""
    corp, other = provider(link_by_email=True), provider(id="other", name="Other")
    settings.SIGN_IN = SignInSettings(providers=(corp, other))
    _, secret = actions.invite(actor=cast.owner, project=cast.project, role=Role.VIEWER, email="ann@example.com")
    account = actions.accept_invitation(secret=secret, username="ann", password="correct horse battery")
    Identity.objects.create(user=account, provider="other", subject="of somebody else")
    Authenticator.objects.create(user=account, type=Authenticator.Type.TOTP, data={"secret": "of somebody else"})
    assert person_of(corp, Claims("7", "ann@example.com", True)) == account
    assert [one.provider for one in account.identities.all()] == ["corp"]
    assert not Authenticator.objects.filter(user=account).exists()


@pytest.mark.parametrize("way", ["administration", "scim", "erasure"])
def test_each_way_of_taking_a_person_out_ends_all_that_they_could_come_in_by(
    person: User, cast: Cast, corp: Provider, way: str
) -> None:
    root = User.objects.get(username="root")
    client = Client()
    client.force_login(User.objects.get(pk=root.pk))
    User.objects.filter(pk=root.pk).update(is_staff=True)
    if way == "administration":
        form = {"username": "ann", "date_joined_0": "2026-01-01", "date_joined_1": "00:00:00", "is_superuser": "on"}
        page = reverse("admin:runs_user_change", args=(person.pk,))
        assert client.post(page, form).status_code == 302
        assert not User.objects.get(pk=person.pk).is_active
    elif way == "scim":
        _, secret = create_provisioning_token(actor=root, provider=corp)
        headers = {"Authorization": f"Bearer {secret}"}
        key = person.identities.get().pk
        assert Client().delete(f"/scim/v2/Users/{key}", headers=headers).status_code == 204
    else:
        actions.erase_person(actor=root, user=person, confirm="ann")
    assert left(person) <= {"Identity", "Authenticator", "NoticeRule"}
    assert (
        not Invitation.objects.exists()
        and not JoinToken.objects.exists()
        and not BrowserSession.objects.filter(user_id=person.pk).exists()
    )


def test_nobody_has_their_old_tokens_and_sessions_again_who_is_enabled_again(person: User, cast: Cast) -> None:
    root = User.objects.get(username="root")
    User.objects.filter(pk=root.pk).update(is_staff=True)
    User.objects.filter(pk=person.pk).update(is_active=False)  # as an earlier version did, which ended nothing
    client = Client()
    client.force_login(root)
    form = {"username": "ann", "date_joined_0": "2026-01-01", "date_joined_1": "00:00:00", "is_active": "on"}
    page = reverse("admin:runs_user_change", args=(person.pk,))
    assert client.post(page, form).status_code == 302
    assert User.objects.get(pk=person.pk).is_active and left(person) == {"Identity", "Authenticator", "NoticeRule"}


def test_a_scim_token_opens_nothing_once_its_maker_is_no_administrator(person: User, corp: Provider) -> None:
    _, secret = create_provisioning_token(actor=person, provider=corp)
    assert provider_of(secret, "") == "corp"
    User.objects.filter(pk=person.pk).update(is_superuser=False)
    assert provider_of(secret, "") is None
    assert ProvisioningToken.objects.filter(revoked_at=None).exists()
