"""``/groups``: groups of people, their roles in projects and on clusters."""

from django.contrib.auth.models import Group
from django.http import HttpRequest
from ninja import Field, Query, Schema

from runs import actions
from runs.api.auth import Resource, actor
from runs.api.paging import ListQuery, Page
from runs.api.people.projects import RoleIn
from runs.api.schemas import Body
from runs.models import Cluster, ClusterRole, Project, User
from runs.rights import access
from runs.rights.access.operations import ADMINISTRATOR, GROUP, lists, machine, operation, thing

router = Resource(tags=["people"])

EVERY = "*"  # in place of a project or a cluster: all of them, those to come included


class GroupIn(Body):
    name: str = Field(min_length=1, max_length=150)


class GroupMembersIn(Body):
    members: list[str] = Field(description="user names: exactly these are in the group from now on")


class ClusterRoleIn(Body):
    role: ClusterRole.Kind = Field(description="runner: may run there; operator: may also change it and its nodes")


class GroupProjectOut(Schema):
    project: str = Field(description="a name; * is every project")
    role: str
    custom_role: str | None


class GroupClusterOut(Schema):
    cluster: str = Field(description="a name; * is every cluster")
    role: str


class GroupOut(Schema):
    id: int
    name: str
    members: list[str]
    projects: list[GroupProjectOut]
    clusters: list[GroupClusterOut]


@router.get("/groups", response=Page[GroupOut], summary="Groups of people")
@operation(lists(access.Permission.MEMBERS_READ))
def find(request: HttpRequest, query: Query[ListQuery]) -> Page[GroupOut]:
    """All for administrators; for others their own, and those with a role in a project of theirs."""
    user = actor(request)
    return query.page(actions.visible_groups(user), lambda rows: [_group(user, row) for row in rows], sort="name")


@router.post("/groups", response={201: GroupOut})
@operation(ADMINISTRATOR)
def create(request: HttpRequest, body: GroupIn) -> GroupOut:
    """For administrators. Example: `{"name": "research"}`"""
    user = actor(request)
    return _group(user, actions.create_group(actor=user, name=body.name))


@router.delete("/groups/{group_id}", response={204: None})
@operation(GROUP)
def delete(request: HttpRequest, group_id: str) -> None:
    """For administrators. Its people lose what it gave them."""
    user = actor(request)
    actions.delete_group(actor=user, group=_find(user, group_id))


@router.put("/groups/{group_id}/members", response=GroupOut, summary="Set who is in a group")
@operation(GROUP)
def set_members(request: HttpRequest, group_id: str, body: GroupMembersIn) -> GroupOut:
    """For administrators. Example: `{"members": []}`"""
    user = actor(request)
    group = _find(user, group_id)
    access.require_administrator(user)
    people = list(User.objects.filter(username__in=body.members))
    if missing := sorted(set(body.members) - {one.username for one in people}):
        raise access.NotFound(f"There is nobody named {missing[0]!r}.")
    actions.set_group_members(actor=user, group=group, users=people)
    return _group(user, group)


@router.put("/groups/{group_id}/projects/{project_id}", response=GroupOut, summary="Give a group a role in a project")
@operation(thing(access.Permission.MEMBERS_MANAGE))
def give_role(request: HttpRequest, group_id: str, project_id: str, body: RoleIn) -> GroupOut:
    """Everybody in the group has it there. `*` in place of the project is every project; for administrators. Example:
    `{"role": "viewer"}`"""
    user = actor(request)
    project = _project(user, project_id)
    custom = actions.custom_role_of(project, body.custom_role) if project and body.custom_role else None
    group = _find(user, group_id, to_give=project)
    actions.give_group_role(actor=user, group=group, project=project, role=body.role, custom_role=custom)
    return _group(user, group)


@router.delete("/groups/{group_id}/projects/{project_id}", response={204: None}, summary="Take a group's role")
@operation(thing(access.Permission.MEMBERS_MANAGE))
def take_role(request: HttpRequest, group_id: str, project_id: str) -> None:
    user = actor(request)
    project = _project(user, project_id)
    actions.take_group_role(actor=user, group=_find(user, group_id, to_give=project), project=project)


@router.put("/groups/{group_id}/clusters/{cluster_id}", response=GroupOut, summary="Let a group run on a cluster")
@operation(machine(access.Permission.CLUSTERS_MANAGE))
def let_on_cluster(request: HttpRequest, group_id: str, cluster_id: str, body: ClusterRoleIn) -> GroupOut:
    """`*` in place of the cluster is every cluster. Example: `{"role": "runner"}`"""
    user = actor(request)
    cluster = _cluster(user, cluster_id)
    group = _find(user, group_id, to_give=cluster)
    actions.give_cluster_role(actor=user, group=group, cluster=cluster, kind=body.role)
    return _group(user, group)


@router.delete(
    "/groups/{group_id}/clusters/{cluster_id}", response={204: None}, summary="Shut a group out of a cluster"
)
@operation(machine(access.Permission.CLUSTERS_MANAGE))
def shut_out_of_cluster(request: HttpRequest, group_id: str, cluster_id: str) -> None:
    user = actor(request)
    cluster = _cluster(user, cluster_id)
    actions.take_cluster_role(actor=user, group=_find(user, group_id, to_give=cluster), cluster=cluster)


def _project(user: User, project_id: str) -> Project | None:
    return None if project_id == EVERY else access.get_project(user, project_id, access.Permission.MEMBERS_MANAGE)


def _cluster(user: User, cluster_id: str) -> Cluster | None:
    return None if cluster_id == EVERY else access.get_cluster(user, cluster_id, access.Permission.CLUSTERS_MANAGE)


def _find(user: User, group_id: str, *, to_give: Project | Cluster | None = None) -> Group:
    """Return the group with that id or name: one that the person sees, or any for whoever may give it a role."""
    found = actions.group_named(group_id)
    if to_give is None and not actions.visible_groups(user).filter(pk=found.pk).exists():
        raise access.NotFound(f"There is no group {group_id!r}.")
    return found


def _group(user: User, group: Group) -> GroupOut:
    """Describe the group with those of its projects and clusters that the person sees."""
    seen = set(access.visible_projects(user).values_list("pk", flat=True))
    sees_clusters = access.has_scope(user, access.Permission.CLUSTERS_READ)
    machines = set(access.visible_clusters(user).values_list("pk", flat=True)) if sees_clusters else set[str]()
    projects = group.project_roles.select_related("project", "custom_role").order_by("project__name")
    clusters = group.cluster_roles.select_related("cluster").order_by("cluster__name")
    return GroupOut(
        id=group.pk,
        name=group.name,
        members=sorted(group.user_set.values_list("username", flat=True)),
        projects=[
            GroupProjectOut(
                project=one.project.name if one.project else EVERY,
                role=one.role,
                custom_role=one.custom_role.name if one.custom_role else None,
            )
            for one in projects
            if one.project is None or one.project_id in seen
        ],
        clusters=[
            GroupClusterOut(cluster=one.cluster.name if one.cluster else EVERY, role=one.role)
            for one in clusters
            if one.cluster is None or one.cluster_id in machines
        ],
    )
