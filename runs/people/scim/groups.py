"""Groups, as a provider's SCIM client keeps them. Roles come from the settings file, and from GroupRole rows."""

import structlog
from django.db import transaction
from django.db.models import QuerySet

from runs.actions.people.handed_out import void_handed_out
from runs.models import Identity, ProvidedGroup
from runs.people.identity.groups import give_roles, make_group, rename_group
from runs.people.identity.providers import Provider
from runs.people.scim.documents import (
    Comparison,
    GroupIn,
    GroupOut,
    GroupRef,
    Meta,
    Operation,
    ScimError,
    patched_group,
)
from runs.people.scim.people import by_id, users_of
from runs.presenting.stamps import stamp

log = structlog.get_logger(__name__)

FILTERS = frozenset({"displayname", "externalid", "id"})


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
        _apply(provider, found, wanted)
    log.info("scim.group_created", provider=provider.id, group=found.pk)
    return found


def replace_group(provider: Provider, group: ProvidedGroup, wanted: GroupIn) -> ProvidedGroup:
    """Let the group be as the document says."""
    if groups_of(provider, Comparison("displayname", wanted.display_name)).exclude(pk=group.pk).exists():
        raise ScimError(409, f"There is already a group {wanted.display_name!r}.", "uniqueness")
    with transaction.atomic():
        group.is_provisioned = True
        _apply(provider, group, wanted)
    return group


def delete_group(provider: Provider, group: ProvidedGroup) -> None:
    """Forget the group: its members lose the roles that it gave."""
    with transaction.atomic():
        group.group.delete()
        void_handed_out()
    log.info("scim.group_deleted", provider=provider.id)


def as_document(group: ProvidedGroup, location: str) -> GroupOut:
    return GroupOut(
        id=str(group.pk),
        display_name=group.name,
        external_id=group.external_id,
        members=_members(group),
        meta=Meta("Group", str(stamp(group.created_at)), f"{location}/Groups/{group.pk}"),
    )


def _apply(provider: Provider, group: ProvidedGroup, wanted: GroupIn) -> None:
    rename_group(group, wanted.display_name)
    group.external_id = wanted.external_id
    group.save(update_fields=["name", "external_id", "is_provisioned"])
    group.group.user_set.set(users_of(provider, (one.value for one in wanted.members)))
    give_roles(provider, group.name)
    void_handed_out()


def _members(group: ProvidedGroup) -> list[GroupRef]:
    rows = Identity.objects.filter(provider=group.provider, user__groups=group.group).select_related("user")
    return [GroupRef(str(one.pk), one.username or one.user.username) for one in rows.order_by("pk")]


def patched(group: ProvidedGroup, operations: list[Operation]) -> GroupIn:
    """Return the group as it would be written after the changes. Raises ScimError."""
    known = GroupIn(display_name=group.name, external_id=group.external_id, members=_members(group))
    return patched_group(known, operations)
