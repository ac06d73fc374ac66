"""Rights of a person in a project: their roles there, cut down by the token that they act by."""

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from django.contrib.auth.models import AnonymousUser
from django.db.models import Q, QuerySet

from runs.models import ClusterRole, CustomRole, GroupRole, Membership, Project, Role, Run, Sweep, Token, User
from runs.rights.access.permissions import (
    EVERYTHING,
    IN_PROJECTS,
    OUTSIDE_PROJECTS,
    PERMISSIONS_OF,
    Area,
    Forbidden,
    NotFound,
    Permission,
    Wanted,
    known_scopes,
    least_role,
    needed,
)

Someone = User | AnonymousUser


def permissions_of(role: str, custom: CustomRole | None = None) -> frozenset[Permission]:
    """Return what a built-in role may do, and a custom one that is added to it."""
    return _permissions(role, custom.permissions if custom else ())


def _permissions(role: str, added: Sequence[str]) -> frozenset[Permission]:
    """What the table no longer has is passed over: a row must not open what nobody can name."""
    known = frozenset(Permission(value) for value in added if value in Permission.values)
    return PERMISSIONS_OF[Role(role)] | (known & IN_PROJECTS)


def held_roles(user: User) -> list[tuple[str | None, frozenset[Permission]]]:
    """Return every role of the person, their own or by a group, in one query: the id of its project, None for every
    project, and what it holds."""
    columns = ("project_id", "role", "custom_role__permissions")
    own = Membership.objects.filter(user=user).values_list(*columns)
    by_group = GroupRole.objects.filter(group__user=user).values_list(*columns)
    held = own.union(by_group, all=True)
    return [(project, _permissions(role, added or ())) for project, role, added in held]


def digest_of_rights(user: User) -> str:
    """Return a digest that changes with what the person may do, and with the token that they act by."""
    held = sorted(f"{project} {sorted(permissions)}" for project, permissions in held_roles(user))
    on_clusters = ClusterRole.objects.filter(group__user=user).values_list("cluster_id", "role")
    by = "" if user.token is None else f"{user.token.scopes} {user.token.project_ids}"
    text = f"{user.is_staff} {user.is_superuser} {held} {sorted(map(str, on_clusters))} {by}"
    return hashlib.sha256(text.encode()).hexdigest()


def by_token(user: User, held: frozenset[Permission], project_id: str | None = None) -> frozenset[Permission]:
    """Return what is left of these permissions for the token that the person acts by."""
    return held if user.token is None else held & token_permissions(user.token, project_id)


def token_permissions(token: Token, project_id: str | None = None) -> frozenset[Permission]:
    """Return the most that a token may do: in that project, or outside of all."""
    found = scope_permissions(token.scopes)
    if token.project_ids is None:
        return found
    if project_id is not None and project_id not in token.project_ids:
        return frozenset()
    return found - OUTSIDE_PROJECTS | (found & {Permission.ACCOUNT_READ})


def scope_permissions(names: Sequence[str] | None) -> frozenset[Permission]:
    """Return what scopes stand for; None: everything. A name that the table no longer has stands for nothing."""
    known = known_scopes()
    if names is None:
        return EVERYTHING
    return frozenset[Permission]().union(*(known.get(name, frozenset()) for name in names))


def permissions_in(user: Someone, project: Project) -> frozenset[Permission]:
    """Return all that the person may do in the project now, by the token that they act by."""
    return by_token(user, _held_in(user, project), project.pk) if isinstance(user, User) else frozenset()


def _held_in(user: Someone, project: Project) -> frozenset[Permission]:
    """Return what the person's roles in the project hold, whatever the token: nothing where the project is not for
    them."""
    if not isinstance(user, User) or not user.is_active:
        return frozenset()
    if user.token is not None and user.token.project_ids is not None and project.pk not in user.token.project_ids:
        return frozenset()
    if user.is_superuser:
        return IN_PROJECTS
    roles = held_roles(user)
    return frozenset[Permission]().union(*(permissions for where, permissions in roles if where in (None, project.pk)))


def can(user: Someone, project: Project, wanted: Wanted) -> bool:
    """Return whether the person may do this in the project; of a role: all that the role may."""
    return needed(wanted) <= permissions_in(user, project)


def require(user: Someone, project: Project, wanted: Wanted) -> None:
    """Raise NotFound for who cannot see the project, Forbidden for who may not do this in it."""
    held = _held_in(user, project)
    if not held:
        raise NotFound(f"There is no project {project.name!r} that you can see.")
    if not needed(wanted) <= held:
        raise Forbidden(f"You need to be {least_role(wanted).label.lower()} of project {project.name} to do this.")
    require_scope(user, wanted, project.pk)


def require_scope(user: Someone, wanted: Wanted, project_id: str | None = None) -> None:
    """Raise Forbidden where the token that the person acts by has no scope for this."""
    if not isinstance(user, User) or user.token is None:
        return
    if missing := needed(wanted) - token_permissions(user.token, project_id):
        names = " and ".join(sorted(missing))
        raise Forbidden(f"The token {user.token.name} may not do this: it has no scope {names}.")


def has_scope(user: Someone, wanted: Wanted) -> bool:
    """Return whether the token that the person acts by, if any, has a scope for this."""
    return not isinstance(user, User) or needed(wanted) <= by_token(user, EVERYTHING)


def require_account(user: User, wanted: Permission) -> None:
    """Raise Forbidden where the token has no scope for what is the person's own."""
    assert wanted.area == Area.ACCOUNT
    require_scope(user, wanted)


def visible_projects(user: Someone) -> QuerySet[Project]:
    """Return those in which the person has any role, and that the token they act by is for."""
    ids = visible_project_ids(user)
    return Project.objects.all() if ids is None else Project.objects.filter(pk__in=ids)


def visible_project_ids(user: Someone) -> list[str] | None:
    """Return the ids of visible_projects(), asked for at once. None: every project there is."""
    if not isinstance(user, User) or not user.is_active:
        return []
    of_token = None if user.token is None else user.token.project_ids
    if user.is_superuser:
        return of_token
    own = Membership.objects.filter(user=user).values_list("project_id")
    by_group = GroupRole.objects.filter(group__user=user).values_list("project_id")
    ids = {project_id for (project_id,) in own.union(by_group)}
    if None in ids:  # a group's role in every project
        return of_token
    return sorted(ids if of_token is None else ids & set(of_token))


def projects_with(user: Someone, wanted: Wanted) -> QuerySet[Project]:
    projects = visible_projects(user)
    if not isinstance(user, User) or not user.is_active or not has_scope(user, wanted):
        return projects.none()
    ids = None if user.is_superuser else _ids_with(user, wanted)
    return projects if ids is None else projects.filter(pk__in=ids)


def can_somewhere(user: Someone, wanted: Wanted) -> bool:
    """Return whether there is a project in which the person may do this, or they may do it in every one: one query."""
    if not isinstance(user, User) or not user.is_active or not has_scope(user, wanted):
        return False
    if user.token is not None and user.token.project_ids is not None:
        return projects_with(user, wanted).exists()
    ids = None if user.is_superuser else _ids_with(user, wanted)
    return ids is None or bool(ids)


def _ids_with(user: User, wanted: Wanted) -> list[str] | None:
    """Return the projects in which a role of the person holds this; None: it is held in every project."""
    held: dict[str | None, frozenset[Permission]] = {}
    for project, permissions in held_roles(user):
        held[project] = held.get(project, frozenset()) | permissions
    everywhere = held.pop(None, frozenset())
    if needed(wanted) <= everywhere:
        return None
    return [pk for pk, own in held.items() if pk is not None and needed(wanted) <= own | everywhere]


def can_everywhere(user: Someone, wanted: Wanted) -> bool:
    """Return whether the person may do this in every project, those to come included, and with what is in none."""
    if not isinstance(user, User) or not user.is_active or not has_scope(user, wanted):
        return False
    if user.token is not None and user.token.project_ids is not None:
        return False
    roles = [] if user.is_superuser else [permissions for project, permissions in held_roles(user) if project is None]
    return user.is_superuser or needed(wanted) <= frozenset[Permission]().union(*roles)


def may_grant(user: Someone, project: Project, role: str, custom: CustomRole | None = None) -> bool:
    """Return whether the person may give others this role, or take it from them: nobody gives more than they have."""
    held = permissions_in(user, project)
    return Permission.MEMBERS_MANAGE in held and permissions_of(role, custom) <= held


def require_grant(user: Someone, project: Project, role: str, custom: CustomRole | None = None) -> None:
    if custom is not None and custom.project_id != project.pk:
        raise NotFound(f"Project {project.name} has no such role.")
    require(user, project, Permission.MEMBERS_MANAGE)
    if may_grant(user, project, role, custom):
        return
    if custom and custom.permissions:
        raise Forbidden(f"You may give nobody more in project {project.name} than you may do there yourself.")
    raise Forbidden(f"You need to be {Role(role).label.lower()} of project {project.name} to do this.")


def strongest_roles(held: Iterable[tuple[str | None, str]]) -> Callable[[str], Role]:
    """Return what names the strongest built-in role in a project, of (project or None for every one, role)."""
    rows = list(held)

    def strongest(project_id: str) -> Role:
        return min((Role(role) for project, role in rows if project in (None, project_id)), key=list(Role).index)

    return strongest


def describe_roles(user: User, project: Project) -> str:
    """Return in words which roles the person has in the project, and by which groups."""
    words = ["Administrator"] if user.is_superuser else []
    for one in Membership.objects.filter(user=user, project=project).select_related("custom_role"):
        words.append(Role(one.role).label + (f" and {one.custom_role.name}" if one.custom_role else ""))
    groups = GroupRole.objects.filter(Q(project=project) | Q(project=None), group__user=user)
    for role in groups.select_related("group", "custom_role"):
        added = f" and {role.custom_role.name}" if role.custom_role else ""
        words.append(f"{Role(role.role).label}{added} by group {role.group.name}")
    return ", ".join(words)


def includes(role: Role, other: Role) -> bool:
    """Return whether the one role may do all that the other may."""
    return PERMISSIONS_OF[other] <= PERMISSIONS_OF[role]


@dataclass(frozen=True)
class Sight:
    """The projects whose runs a person sees, by id; None: all there are. A plain value for sockets, which ask for all
    people at once."""

    projects: frozenset[str] | None

    def sees(self, project_id: str | None) -> bool:
        """Return whether they see what is in that project; None is the project of what there is not."""
        return project_id is not None and (self.projects is None or project_id in self.projects)


NOTHING = Sight(frozenset())


def sights(users: Collection[User]) -> dict[int, Sight]:
    """Return the sight of each person by their id, whatever token they act by: visible_projects() for many, in one
    query."""
    projects: dict[int, set[str]] = {user.pk: set() for user in users if user.is_active}
    everywhere = {user.pk for user in users if user.is_superuser}
    own = Membership.objects.filter(user__in=projects).values_list("user_id", "project_id")
    by_group = GroupRole.objects.filter(group__user__in=projects).values_list("group__user", "project_id")
    for user_id, project_id in own.union(by_group):
        if project_id is None:
            everywhere.add(user_id)
        else:
            projects[user_id].add(project_id)
    return {
        user.pk: Sight(None if user.is_active and user.pk in everywhere else frozenset(projects.get(user.pk, ())))
        for user in users
    }


def sight_by_token(user: User, sight: Sight) -> Sight:
    """Return what is left of the person's sight for the token that they act by."""
    return reach_by_token(user, sight) if has_scope(user, Permission.RUNS_READ) else NOTHING


def reach_by_token(user: User, sight: Sight) -> Sight:
    """Return the part of the person's sight that lies in the projects of the token, whatever its scopes are."""
    if user.token is None or user.token.project_ids is None:
        return sight
    mine = frozenset(user.token.project_ids)
    return Sight(mine if sight.projects is None else mine & sight.projects)


def projects_of(kind: type[Run | Sweep], keys: Collection[str]) -> dict[str, str]:
    """Return the project of each of the runs, or sweeps, that there are: who sees the project sees them."""
    return dict(kind.objects.filter(pk__in=keys).values_list("pk", "project_id"))
