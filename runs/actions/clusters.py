"""Clusters, and the tokens that let machines into them."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from runs.access import require_manager
from runs.actions.refused import Refused
from runs.models import Cluster, JoinToken, Node, User
from runs.models.access import digest_of

TOKEN_LIFE = timedelta(hours=24)
LOCAL = "local"


def create_cluster(*, actor: User, name: str, region: str = "", labels: dict[str, str] | None = None) -> Cluster:
    """Make an empty cluster. Raises ValidationError for a bad name, Refused for a taken one."""
    require_manager(actor)
    cluster = Cluster(name=name, region=region, labels=labels or {})
    cluster.clean_fields()
    return _save(cluster)


def cluster_of_this_machine(*, actor: User, node: str) -> Cluster:
    """Return the cluster of the server's own machine: the one that its node is in, or was, whatever it is called now,
    else ``local``, which is made where there is none."""
    require_manager(actor)
    known = Node.objects.filter(name=node).select_related("cluster").first()
    if known is not None:
        return known.cluster
    return Cluster.objects.get_or_create(name=LOCAL)[0]


def edit_cluster(*, actor: User, cluster: Cluster, **changes: Any) -> Cluster:
    """Change name, region or labels. Raises ValidationError for a bad value, Refused for a taken name."""
    require_manager(actor)
    for field in ("name", "region", "labels"):
        if changes.get(field) is not None:
            setattr(cluster, field, changes[field])
    cluster.clean_fields()
    return _save(cluster)


def delete_cluster(*, actor: User, cluster: Cluster) -> None:
    """Delete a cluster that has neither nodes nor runs: their history names it."""
    require_manager(actor)
    with transaction.atomic():
        if cluster.nodes.filter(removed_at=None).exists():
            raise Refused("has-nodes", f"Cluster {cluster.name} still has nodes.")
        if cluster.runs.exists():
            raise Refused("has-runs", f"Cluster {cluster.name} has runs in its history.")
        if cluster.datasets.exists():
            raise Refused("has-datasets", f"Projects have datasets on cluster {cluster.name}. They go first.")
        cluster.nodes.all().delete()  # the removed ones: no run's history names them
        cluster.delete()


def new_join_token(*, actor: User, cluster: Cluster) -> tuple[JoinToken, str]:
    """Return a token and its secret, which is shown this once and lets one machine in within a day."""
    require_manager(actor)
    secret = "join_" + secrets.token_urlsafe(32)
    token = JoinToken.objects.create(
        cluster=cluster, digest=digest_of(secret), created_by=actor, expires_at=timezone.now() + TOKEN_LIFE
    )
    return token, secret


def _save(cluster: Cluster) -> Cluster:
    try:
        with transaction.atomic():
            cluster.save()
    except IntegrityError as error:
        raise Refused("name-taken", f"There is already a cluster named {cluster.name}.") from error
    return cluster
