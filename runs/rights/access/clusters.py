"""Access to clusters and their nodes: who sees, uses and changes them."""

from collections.abc import Collection
from typing import Any, TypeVar

from django.db.models import Exists, Model, Q, QuerySet

from runs.models import Cluster, ClusterRole, Node, Project, User
from runs.rights.access.operations import Asker, asked
from runs.rights.access.permissions import PERMISSIONS_ON_CLUSTERS, Forbidden, Permission, Wanted, or_not_found
from runs.rights.access.roles import Someone, has_scope, projects_with, require_scope, visible_project_ids

M = TypeVar("M", bound=Model)
MANAGERS = "Only staff may change clusters and nodes."


def visible_clusters(user: Someone) -> QuerySet[Cluster]:
    """Return all for staff, who manage them; for others those that a project or a group of theirs may use."""
    require_scope(user, Permission.CLUSTERS_READ)
    return _clusters(user)


def visible_nodes(user: Someone) -> QuerySet[Node]:
    require_scope(user, Permission.CLUSTERS_READ)
    return _nodes(user)


def nodes_of(clusters: Collection[Cluster] | QuerySet[Cluster, Any]) -> QuerySet[Node]:
    """Return the nodes of clusters that visible_clusters() gave: who sees a cluster sees its nodes."""
    return Node.objects.present().filter(cluster__in=clusters)


def seen(rows: QuerySet[M], kind: str, key: str, *, by_name: bool = False) -> M:
    """Return the row with that id, or that name, of those that a person sees. Raises NotFound."""
    found = rows.filter(pk=key).first() or (rows.filter(name=key).first() if by_name else None)
    return or_not_found(found, f"There is no {kind} {key!r} that you can see.")


def get_cluster(who: Asker, cluster_id: str, wanted: Permission | None = None) -> Cluster:
    """Return the cluster with that id or name. Raises NotFound, and Forbidden for who may not do this with it."""
    user, asks = asked(who, wanted, Permission.CLUSTERS_READ)
    cluster = seen(_clusters(user), "cluster", cluster_id, by_name=True)
    _require_on(user, cluster, asks)
    return cluster


def get_node(who: Asker, node_id: str, wanted: Permission | None = None) -> Node:
    """Return the node with that id or name. Raises NotFound, and Forbidden for who may not do this with it."""
    user, asks = asked(who, wanted, Permission.CLUSTERS_READ)
    node = seen(_nodes(user), "node", node_id, by_name=True)
    _require_on(user, node.cluster, asks)
    return node


def _require_on(user: Someone, cluster: Cluster, wanted: Wanted) -> None:
    """Raise Forbidden unless the person, who sees the cluster, may do this with it."""
    if wanted == Permission.CLUSTERS_MANAGE:
        require_manager(user, cluster)
    elif wanted == Permission.CLUSTERS_USE:
        require_runner(user, cluster)
    else:
        require_scope(user, wanted)


def get_cluster_for(user: Someone, project: Project, cluster_id: str) -> Cluster:
    """Return the cluster with that id or name for use by the project, whoever asks. Raises NotFound and Forbidden."""
    cluster = seen(_clusters(user), "cluster", cluster_id, by_name=True)
    require_use(project, cluster, user)
    return cluster


def require_use(project: Project, cluster: Cluster, user: Someone | None = None) -> None:
    """Raise Forbidden unless the project may use the cluster, or a group of the person. Superusers too, for the
    project's members' runs go there. Nothing of a project that is pinned to regions goes to a
    cluster elsewhere."""
    if sentence := project.why_not_in(f"cluster {cluster.name}", cluster.region):
        raise Forbidden(sentence)
    if cluster.projects.filter(pk=project.pk).exists():
        return
    if isinstance(user, User) and Cluster.objects.filter(_by_groups(user, Permission.CLUSTERS_USE), pk=cluster.pk):
        return
    how = "Staff let a project use it, where the cluster is edited."
    raise Forbidden(f"Project {project.name} may not use cluster {cluster.name}. {how}")


def users_who_may_run_on(cluster: Cluster) -> QuerySet[User]:
    """Return the people who may run on the cluster from any project, by a group."""
    roles = ClusterRole.objects.filter(Q(cluster=cluster) | Q(cluster=None))
    return User.objects.filter(is_active=True, groups__in=roles.values("group"))


def can_manage_clusters(user: Someone) -> bool:
    """Return whether they manage all clusters, and make new ones: staff, as Django calls them, and operators of all."""
    return can_manage_cluster(user, None)


def can_manage_cluster(user: Someone, cluster: Cluster | None) -> bool:
    """Return whether they manage this cluster and its nodes; None: all there are, and those to come."""
    roles = _roles(user, Permission.CLUSTERS_MANAGE).filter(Q(cluster=cluster) | Q(cluster=None))
    return _may(user, Permission.CLUSTERS_MANAGE) and (_is_staff(user) or roles.exists())


def require_manager(user: Someone, cluster: Cluster | None = None) -> None:
    """Raise Forbidden for who may not change the cluster; None: who may not make one."""
    if not can_manage_cluster(user, cluster):
        require_scope(user, Permission.CLUSTERS_MANAGE)
        raise Forbidden(MANAGERS)


def can_run_on(user: Someone, cluster: Cluster) -> bool:
    """Return whether they are staff, a member of a project that may use the cluster, or in a group that may."""
    if not isinstance(user, User) or not _may(user, Permission.CLUSTERS_USE):
        return False
    if _is_staff(user) or projects_with(user, Permission.CLUSTERS_USE).filter(clusters=cluster).exists():
        return True
    return Cluster.objects.filter(_by_groups(user, Permission.CLUSTERS_USE), pk=cluster.pk).exists()


def require_runner(user: Someone, cluster: Cluster) -> None:
    """Raise Forbidden for who may not run on the cluster."""
    if not can_run_on(user, cluster):
        require_scope(user, Permission.CLUSTERS_USE)
        raise Forbidden(f"You need to be a member of a project that may use cluster {cluster.name} to do this.")


def _clusters(user: Someone) -> QuerySet[Cluster]:
    if not isinstance(user, User) or not user.is_active:
        return Cluster.objects.none()
    is_for_projects = user.token is not None and user.token.project_ids is not None
    if _is_staff(user) and not is_for_projects:
        return Cluster.objects.all()
    ids = visible_project_ids(user)
    lets = Cluster.projects.through.objects.all()
    found = Q(pk__in=(lets if ids is None else lets.filter(project__in=ids)).values("cluster"))
    return Cluster.objects.filter(found if is_for_projects else found | _by_groups(user, Permission.CLUSTERS_READ))


def _nodes(user: Someone) -> QuerySet[Node]:
    return nodes_of(_clusters(user).values("pk")).select_related("cluster")


def _may(user: Someone, permission: Permission) -> bool:
    return isinstance(user, User) and user.is_active and has_scope(user, permission)


def _is_staff(user: Someone) -> bool:
    return isinstance(user, User) and user.is_active and (user.is_staff or user.is_superuser)


def _roles(user: Someone, permission: Permission) -> QuerySet[ClusterRole]:
    """Return the roles on clusters that the person's groups have and that may do this."""
    enough = [kind for kind, held in PERMISSIONS_ON_CLUSTERS.items() if permission in held]
    return ClusterRole.objects.filter(group__user=user.pk or 0, role__in=enough)


def _by_groups(user: User, permission: Permission) -> Q:
    """Choose the clusters on which the person may do this by a group."""
    roles = _roles(user, permission)
    return Q(pk__in=roles.exclude(cluster=None).values("cluster")) | Q(Exists(roles.filter(cluster=None)))
