"""Groups of people, their roles in projects and on clusters, and the roles that a project makes for itself."""

from collections.abc import Sequence
from typing import Any

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q, QuerySet

from runs.actions.jobs import taking_name
from runs.actions.people.ways_in import void_handed_out
from runs.models import Cluster, ClusterRole, CustomRole, GroupRole, Project, Role, User
from runs.rights import access
from trainyard.formats.names import without_hidden


def visible_groups(user: User) -> QuerySet[Group]:
    """Return all groups for administrators; for others their own and those with a role in a project of theirs."""
    access.require_scope(user, access.Permission.MEMBERS_READ)
    if access.is_administrator(user):
        return Group.objects.all()
    roles = GroupRole.objects.filter(project__in=access.visible_projects(user))
    return Group.objects.filter(Q(pk__in=roles.values("group")) | Q(pk__in=user.groups.values("pk")))


def group_named(name: str) -> Group:
    """Return the group with that id or name, for whoever may give groups roles. Raises NotFound."""
    found = Group.objects.filter(Q(name=name) | (Q(pk=int(name)) if name.isdecimal() else Q(pk=None))).first()
    return access.or_not_found(found, f"There is no group {name!r}.")


def create_group(*, actor: User, name: str) -> Group:
    """Make an empty group. Raises ValidationError, and Refused for a taken name."""
    access.require_administrator(actor)
    group = Group(name=without_hidden(name).strip())
    group.clean_fields()
    with taking_name(f"There is already a group named {group.name}."):
        group.save()
    return group


@access.with_rights_held
def delete_group(*, actor: User, group: Group) -> None:
    access.require_administrator(actor)
    with transaction.atomic():
        group.delete()
        void_handed_out()


@access.with_rights_held
def set_group_members(*, actor: User, group: Group, users: Sequence[User]) -> None:
    access.require_administrator(actor)
    with transaction.atomic():
        group.user_set.set(users)
        void_handed_out()


@access.with_rights_held
def give_group_role(
    *, actor: User, group: Group, project: Project | None, role: Role, custom_role: CustomRole | None = None
) -> GroupRole:
    """Give everybody in the group a role: in the project, or (administrators) in every project."""
    _require_over(actor, group, project)
    if project is not None:
        access.require_grant(actor, project, role, custom_role)
    with transaction.atomic():
        defaults = {"role": role, "custom_role": custom_role if project else None, "origin": ""}
        made, _ = GroupRole.objects.update_or_create(group=group, project=project, defaults=defaults)
        void_handed_out()
    return made


@access.with_rights_held
def take_group_role(*, actor: User, group: Group, project: Project | None) -> None:
    """Take the group's role in the project (None: the one in every project) from it. Raises NotFound."""
    _require_over(actor, group, project)
    _take(group, GroupRole.objects.filter(group=group, project=project))


@access.with_rights_held
def give_cluster_role(*, actor: User, group: Group, cluster: Cluster | None, kind: ClusterRole.Kind) -> ClusterRole:
    """Let everybody in the group run on the cluster, or operate it; None: every cluster, those to come included."""
    access.require_manager(actor, cluster)
    made, _ = ClusterRole.objects.update_or_create(group=group, cluster=cluster, defaults={"role": kind})
    return made


@access.with_rights_held
def take_cluster_role(*, actor: User, group: Group, cluster: Cluster | None) -> None:
    access.require_manager(actor, cluster)
    _take(group, ClusterRole.objects.filter(group=group, cluster=cluster))


def _take(group: Group, roles: QuerySet[Any]) -> None:
    with transaction.atomic():
        found, _ = roles.delete()
        if not found:
            raise access.NotFound(f"Group {group.name} has no role there.")
        void_handed_out()


@access.with_rights_held
def save_custom_role(
    *, actor: User, project: Project, name: str, permissions: Sequence[str], role: CustomRole | None = None
) -> CustomRole:
    """Make a role of the project, or change ``role``. It holds no more than the actor may do there. Raises
    ValidationError by field, Refused for a taken name."""
    access.require(actor, project, access.Permission.ROLES_MANAGE)
    wanted = _checked(permissions)
    before = frozenset(role.permissions) if role is not None else frozenset[str]()
    if more := sorted((wanted | before) - access.permissions_in(actor, project)):
        raise access.Forbidden(f"You cannot give what you have not in project {project.name}: {', '.join(more)}.")
    saved = role or CustomRole(project=project)
    saved.name, saved.permissions = without_hidden(name).strip(), sorted(wanted)
    saved.clean_fields()
    if saved.name in Role.values:
        raise ValidationError({"name": f"{saved.name} is a built-in role."})
    with taking_name(f"There is already a role named {saved.name} in {project.name}."):
        saved.save()
        void_handed_out()
    return saved


@access.with_rights_held
def delete_custom_role(*, actor: User, role: CustomRole) -> None:
    """Delete the role: whoever had it keeps their built-in one."""
    access.require(actor, role.project, access.Permission.ROLES_MANAGE)
    with transaction.atomic():
        role.delete()
        void_handed_out()


def custom_role_of(project: Project, name: str) -> CustomRole:
    found = project.custom_roles.filter(Q(pk=name) | Q(name=name)).first()
    return access.or_not_found(found, f"Project {project.name} has no role {name!r} of its own.")


def _checked(permissions: Sequence[str]) -> frozenset[str]:
    known = [one.value for one in access.Permission if one in access.IN_PROJECTS]
    if unknown := [one for one in permissions if one not in known]:
        words = f"There is no permission {unknown[0]!r} in projects. There are: {', '.join(known)}."
        raise ValidationError({"permissions": words})
    if not permissions:
        raise ValidationError({"permissions": "Name at least one."})
    return frozenset(permissions)


def _require_over(actor: User, group: Group, project: Project | None) -> None:
    """Raise Forbidden for who could not give the group the role that it has in the project, or in every project."""
    if project is None:
        return access.require_administrator(actor)
    access.require(actor, project, access.Permission.MEMBERS_MANAGE)
    held = GroupRole.objects.filter(group=group, project=project).select_related("custom_role").first()
    if held is not None:
        access.require_grant(actor, project, held.role, held.custom_role)
