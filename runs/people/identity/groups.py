"""Groups that a provider keeps: who is in them, and the roles that the settings file gives them.

A group of a provider is a group of people here under the name "PROVIDER: GROUP". Roles come from GroupRole rows; what
was given to a person by hand (Membership) is never touched.
"""

from collections.abc import Collection

import structlog
from django.contrib.auth.models import Group
from django.db import transaction

from runs.actions.people.ways_in import void_handed_out
from runs.models import GroupRole, Project, ProvidedGroup, Role, User
from runs.people.identity.providers import Provider

log = structlog.get_logger(__name__)


def put_into_groups(provider: Provider, user: User, names: Collection[str]) -> None:
    """Let the person be in these groups of the provider and in no others of it. Groups that SCIM keeps stay as they
    are: it says by itself who is in them."""
    known = {one.name: one for one in ProvidedGroup.objects.filter(provider=provider.id).select_related("group")}
    mapped = {one.group for one in provider.roles}
    named = sorted(name for name in names if name in known or name in mapped)
    wanted = [(known.get(name) or make_group(provider.id, name)).group for name in named]
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


def make_group(provider_id: str, name: str) -> ProvidedGroup:
    """Make the group. One that has its name here already, by hand, is never taken over."""
    group = Group.objects.create(name=_free_title(provider_id, name))
    return ProvidedGroup.objects.create(group=group, provider=provider_id, name=name)


def rename_group(group: ProvidedGroup, name: str) -> None:
    """Let the group be called so from now on: by the provider, and here."""
    if group.name != name:
        group.name, group.group.name = name, _free_title(group.provider, name)
        group.group.save(update_fields=["name"])


def _free_title(provider_id: str, name: str) -> str:
    title = base = f"{provider_id}: {name}"[:140]
    number = 2
    while Group.objects.filter(name=title).exists():
        title, number = f"{base} ({number})", number + 1
    return title


def give_roles(provider: Provider, name: str) -> None:
    """Give the group the roles that the settings file says, and none besides, where the file speaks of the group. Where
    it does not any more, what it gave goes."""
    found = ProvidedGroup.objects.filter(provider=provider.id, name=name).select_related("group").first()
    if found is None:
        return
    settings = [one for one in provider.roles if one.group == name]
    wanted: dict[str, str] = {}
    for one in settings:
        project = Project.objects.filter(name=one.project).first()
        if project is None or one.role not in Role.values:
            log.warning("sign_in.no_such_role", provider=provider.id, project=one.project, role=one.role)
            continue
        wanted[project.pk] = one.role
    rows = GroupRole.objects.filter(group=found.group)
    (rows if settings else rows.exclude(origin="")).exclude(project__in=wanted).delete()
    for project_id, role in wanted.items():
        entry = {"role": role, "custom_role": None, "origin": f"{provider.id}:{name}"}
        if not rows.filter(project_id=project_id, role=role, origin=entry["origin"]).exists():
            GroupRole.objects.update_or_create(group=found.group, project_id=project_id, defaults=entry)


def reconcile_roles(providers: Collection[Provider]) -> None:
    """Let the roles that come from the settings file be those that it names now: once, as it is read at a start."""
    with transaction.atomic():
        for group in ProvidedGroup.objects.all():
            provider = next((one for one in providers if one.id == group.provider), None)
            if provider is not None:
                give_roles(provider, group.name)
        known = [one.id for one in providers]
        GroupRole.objects.exclude(origin="").exclude(group__provided__provider__in=known).delete()
        void_handed_out()
