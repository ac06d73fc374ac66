"""People and groups, as a provider's SCIM client keeps them. A client sees those of its provider alone."""

from collections.abc import Iterable
from typing import TypeVar

import structlog
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import Model, Q, QuerySet

from runs.actions.people.ways_in import disable, end_ways_in, void_handed_out
from runs.models import Identity, ProvidedGroup, User
from runs.people.identity.people import NotAdmitted, give_roles, linkable, make_group, make_person, rename_group
from runs.people.identity.providers import Claims, Provider
from runs.people.scim.documents import (
    Comparison,
    Email,
    GroupIn,
    GroupOut,
    GroupRef,
    Meta,
    Operation,
    PersonName,
    ScimError,
    UserIn,
    UserOut,
    patched_group,
    patched_user,
)
from runs.presenting.stamps import stamp
from runs.values.refused import Refused
from trainyard.formats.names import without_hidden

log = structlog.get_logger(__name__)

PERSON_FILTERS = frozenset({"username", "externalid", "id"})
GROUP_FILTERS = frozenset({"displayname", "externalid", "id"})
M = TypeVar("M", bound=Model)


def people_of(provider: Provider, wanted: Comparison | None) -> QuerySet[Identity]:
    """Return the provider's people that the filter asks for."""
    found = Identity.objects.filter(provider=provider.id).select_related("user").order_by("pk")
    if wanted is None:
        return found
    if wanted.attribute == "username":
        return found.filter(Q(username__iexact=wanted.value) | Q(username="", user__username__iexact=wanted.value))
    return by_id(found, wanted)


def by_id(rows: QuerySet[M], wanted: Comparison) -> QuerySet[M]:
    """Return those of the rows that have the id, ours or the client's; none for what is no id."""
    if wanted.attribute == "externalid":
        return rows.filter(external_id=wanted.value) if wanted.value else rows.none()
    is_number = wanted.value.isascii() and wanted.value.isdigit() and len(wanted.value) < 19
    return rows.filter(pk=int(wanted.value)) if is_number else rows.none()


def create_person(provider: Provider, wanted: UserIn) -> Identity:
    """Make the person; one who is here already, and whom the provider may link, becomes its own."""
    if people_of(provider, Comparison("username", wanted.user_name)).exists():
        raise ScimError(409, f"There is already a user {wanted.user_name!r}.", "uniqueness")
    email = _checked_email(wanted.email)
    with transaction.atomic():
        known = Identity.objects.filter(provider=provider.id, subject=wanted.external_id).exclude(subject="").first()
        if known is not None:
            raise ScimError(409, f"The person with externalId {wanted.external_id!r} is here already.", "uniqueness")
        user = linkable(provider, email) if provider.link_by_email and email else None
        if user is not None:
            end_ways_in(user, is_handed_over=True)
        else:
            user = _new_user(wanted, email)
        identity = Identity.objects.create(
            provider=provider.id,
            user=user,
            username=wanted.user_name,
            external_id=wanted.external_id,
            is_provisioned=True,
            keeps_person=True,
        )
        _apply(identity, wanted, email)
    log.info("scim.created", provider=provider.id, user=user.pk)
    return identity


def replace_person(provider: Provider, identity: Identity, wanted: UserIn) -> Identity:
    """Let the person be as the document says."""
    email = _checked_email(wanted.email)
    if people_of(provider, Comparison("username", wanted.user_name)).exclude(pk=identity.pk).exists():
        raise ScimError(409, f"There is already a user {wanted.user_name!r}.", "uniqueness")
    with transaction.atomic():
        identity.username, identity.external_id = wanted.user_name, wanted.external_id
        identity.save(update_fields=["username", "external_id"])
        _apply(identity, wanted, email)
    return identity


def delete_person(provider: Provider, identity: Identity) -> None:
    """Disable the person and forget the identity. What they launched stays theirs."""
    with transaction.atomic():
        _deactivate(identity)
        identity.user.groups.remove(*identity.user.groups.filter(provided__provider=provider.id))
        identity.delete()
    log.info("scim.deleted", provider=provider.id, user=identity.user_id)


def _deactivate(identity: Identity) -> None:
    try:
        disable(identity.user)
    except Refused as error:
        sentence = "The last administrator of this site is not disabled from outside."
        raise ScimError(409, sentence, "mutability") from error
    identity.is_disabled_by_provider = True
    identity.save(update_fields=["is_disabled_by_provider"])
    log.info("scim.deactivated", user=identity.user_id)


def _activate(identity: Identity) -> None:
    """Enable the person, if it was the provider that disabled them. What they had before opens nothing."""
    if not identity.is_disabled_by_provider:
        log.info("scim.not_activated", user=identity.user_id)
        return
    identity.user.is_active, identity.is_disabled_by_provider = True, False
    identity.user.save(update_fields=["is_active"])
    identity.save(update_fields=["is_disabled_by_provider"])
    end_ways_in(identity.user)
    log.info("scim.activated", user=identity.user_id)


def person_document(identity: Identity, location: str) -> UserOut:
    user = identity.user
    groups = ProvidedGroup.objects.filter(provider=identity.provider, group__user=user).order_by("pk")
    return UserOut(
        id=str(identity.pk),
        user_name=identity.username or user.username,
        external_id=identity.external_id,
        name=PersonName(user.first_name, user.last_name),
        display_name=str(user),
        emails=[Email(user.email, primary=True, type="work")] if user.email else [],
        active=user.is_active,
        groups=[GroupRef(str(one.pk), one.name) for one in groups],
        meta=Meta("User", str(stamp(identity.created_at)), f"{location}/Users/{identity.pk}"),
    )


def users_of(provider: Provider, keys: Iterable[str]) -> list[User]:
    """Return the people with these ids. Raises ScimError for an id that there is not."""
    wanted = set(keys)
    numbers = {int(key) for key in wanted if key.isascii() and key.isdigit() and len(key) < 19}
    found = Identity.objects.filter(provider=provider.id, pk__in=numbers).select_related("user")
    if len(numbers) < len(wanted) or len(found) < len(numbers):
        missing = sorted(wanted - {str(one.pk) for one in found})
        raise ScimError(400, f"There is no user {missing[0][:60]!r}.", "invalidValue")
    return [one.user for one in found]


def _apply(identity: Identity, wanted: UserIn, email: str) -> None:
    user = identity.user
    if identity.is_provisioned and not user.is_superuser:  # whoever connected an account by hand keeps their own names
        given, family = wanted.name.given_name, wanted.name.family_name
        user.first_name, user.last_name, user.email = without_hidden(given), without_hidden(family), email
        user.save(update_fields=["first_name", "last_name", "email"])
    if user.is_active and wanted.active is False:
        _deactivate(identity)
    elif wanted.active and not user.is_active:
        _activate(identity)


def changed_person(identity: Identity, operations: list[Operation]) -> UserIn:
    """Return the person as they would be written after the changes. Raises ScimError."""
    user = identity.user
    known = UserIn(
        user_name=identity.username or user.username,
        external_id=identity.external_id,
        name=PersonName(user.first_name, user.last_name),
        emails=[Email(user.email, primary=True)] if user.email else [],
        active=user.is_active,
    )
    return patched_user(known, operations)


def _new_user(wanted: UserIn, email: str) -> User:
    claims = Claims(
        subject=wanted.external_id,
        email=email,
        is_email_verified=bool(email),
        username=wanted.user_name,
        first_name=wanted.name.given_name,
        last_name=wanted.name.family_name,
    )
    try:
        return make_person(claims)
    except NotAdmitted as error:
        raise ScimError(400, error.sentence, "invalidValue") from error


def _checked_email(email: str) -> str:
    try:
        if email:
            validate_email(email)
    except ValidationError as error:
        raise ScimError(400, f"{email[:60]!r} is no e-mail address.", "invalidValue") from error
    return email


# Groups. Their roles come from the settings file, and from GroupRole rows.


def groups_of(provider: Provider, wanted: Comparison | None) -> QuerySet[ProvidedGroup]:
    """Return the provider's groups that the filter asks for."""
    found = ProvidedGroup.objects.filter(provider=provider.id).select_related("group").order_by("pk")
    if wanted is None:
        return found
    if wanted.attribute == "displayname":
        return found.filter(name__iexact=wanted.value)
    return by_id(found, wanted)


def create_group(provider: Provider, wanted: GroupIn) -> ProvidedGroup:
    """Make the group. One that claims of sign-ins brought is the client's from now on."""
    with transaction.atomic():
        found = groups_of(provider, Comparison("displayname", wanted.display_name)).first()
        if found is not None and found.is_provisioned:
            raise ScimError(409, f"There is already a group {wanted.display_name!r}.", "uniqueness")
        if found is None:
            found = make_group(provider.id, wanted.display_name)
        found.is_provisioned = True
        found.save(update_fields=["is_provisioned"])
        _apply_group(provider, found, wanted)
    log.info("scim.group_created", provider=provider.id, group=found.pk)
    return found


def replace_group(provider: Provider, group: ProvidedGroup, wanted: GroupIn) -> ProvidedGroup:
    """Let the group be as the document says."""
    if groups_of(provider, Comparison("displayname", wanted.display_name)).exclude(pk=group.pk).exists():
        raise ScimError(409, f"There is already a group {wanted.display_name!r}.", "uniqueness")
    with transaction.atomic():
        group.is_provisioned = True
        _apply_group(provider, group, wanted)
    return group


def delete_group(provider: Provider, group: ProvidedGroup) -> None:
    """Forget the group: its members lose the roles that it gave."""
    with transaction.atomic():
        group.group.delete()
        void_handed_out()
    log.info("scim.group_deleted", provider=provider.id)


def group_document(group: ProvidedGroup, location: str) -> GroupOut:
    return GroupOut(
        id=str(group.pk),
        display_name=group.name,
        external_id=group.external_id,
        members=_members(group),
        meta=Meta("Group", str(stamp(group.created_at)), f"{location}/Groups/{group.pk}"),
    )


def _apply_group(provider: Provider, group: ProvidedGroup, wanted: GroupIn) -> None:
    rename_group(group, wanted.display_name)
    group.external_id = wanted.external_id
    group.save(update_fields=["name", "external_id", "is_provisioned"])
    group.group.user_set.set(users_of(provider, (one.value for one in wanted.members)))
    give_roles(provider, group.name)
    void_handed_out()


def _members(group: ProvidedGroup) -> list[GroupRef]:
    rows = Identity.objects.filter(provider=group.provider, user__groups=group.group).select_related("user")
    return [GroupRef(str(one.pk), one.username or one.user.username) for one in rows.order_by("pk")]


def changed_group(group: ProvidedGroup, operations: list[Operation]) -> GroupIn:
    """Return the group as it would be written after the changes. Raises ScimError."""
    known = GroupIn(display_name=group.name, external_id=group.external_id, members=_members(group))
    return patched_group(known, operations)
