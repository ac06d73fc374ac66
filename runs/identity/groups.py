"""Groups that a provider keeps: who is in them, and the roles that the settings file gives them.

A group of a provider is a group of people here under the name "PROVIDER: GROUP". Roles come from GroupRole rows; what
was given to a person by hand (Membership) is never touched.
"""

from __future__ import annotations

from collections.abc import Collection

import structlog
from django.contrib.auth.models import Group

from runs.actions.people.handed_out import void_handed_out
from runs.identity.providers import Provider
from runs.models import GroupRole, Project, ProvidedGroup, Role, User

log = structlog.get_logger(__name__)


def put_into_groups(provider: Provider, user: User, names: Collection[str]) -> None:
    """Let the person be in these groups of the provider and in no others of it. Groups that SCIM keeps stay as they
    are: it says by itself who is in them."""
    known = {one.name: one for one in ProvidedGroup.objects.filter(provider=provider.id).select_related("group")}
    mapped = {one.group for one in provider.roles}
    wanted = [
        (known.get(name) or make_group(provider.id, name)).group
        for name in sorted(names)
        if name in known or name in mapped
    ]
    for name in sorted(mapped):
        give_roles(provider, name)
    ours = Group.objects.filter(provided__provider=provider.id, provided__is_provisioned=False)
    there = set(user.groups.filter(pk__in=ours).values_list("pk", flat=True))
    wanted_keys = {group.pk for group in wanted if group in ours}
    if there == wanted_keys:
        return
    user.groups.remove(*(there - wanted_keys))
    user.groups.add(*(wanted_keys - there))
    void_handed_out()
    log.info("sign_in.groups", provider=provider.id, user=user.pk, groups=sorted({*names} & {*mapped, *known}))


def known_groups(provider: Provider, names: Collection[str]) -> set[str]:
    """Return those of the names that mean something here: the settings file names them, or there is such a group."""
    there = ProvidedGroup.objects.filter(provider=provider.id).values_list("name", flat=True)
    return set(names) & ({one.group for one in provider.roles} | set(there))


def make_group(provider_id: str, name: str, *, external_id: str = "", is_provisioned: bool = False) -> ProvidedGroup:
    """Make the group. One that has its name here already, by hand, is never taken over."""
    title = base = f"{provider_id}: {name}"[:140]
    number = 2
    while Group.objects.filter(name=title).exists():
        title, number = f"{base} ({number})", number + 1
    return ProvidedGroup.objects.create(
        group=Group.objects.create(name=title),
        provider=provider_id,
        name=name,
        external_id=external_id,
        is_provisioned=is_provisioned,
    )


def give_roles(provider: Provider, name: str) -> None:
    """Give the group the roles that the settings file says, and none besides, where the file speaks of the group."""
    found = ProvidedGroup.objects.filter(provider=provider.id, name=name).select_related("group").first()
    settings = provider.roles_of(name)
    if found is None or not settings:
        return
    wanted: dict[str, str] = {}
    for one in settings:
        project = Project.objects.filter(name=one.project).first()
        if project is None or one.role not in Role.values:
            log.warning("sign_in.no_such_role", provider=provider.id, project=one.project, role=one.role)
            continue
        wanted[project.pk] = one.role
    rows = {row.project_id: row for row in GroupRole.objects.filter(group=found.group)}
    for project_id, row in rows.items():
        if project_id not in wanted:
            row.delete()
        elif row.role != wanted[project_id]:
            row.role = wanted[project_id]
            row.save(update_fields=["role"])
    for project_id in wanted.keys() - rows.keys():
        GroupRole.objects.create(group=found.group, project_id=project_id, role=wanted[project_id])
