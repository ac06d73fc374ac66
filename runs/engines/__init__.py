"""How control reaches the machines of a cluster, by the name of the cluster's engine."""

from __future__ import annotations

from runs.engines.celery import CeleryEngine
from runs.engines.protocol import Engine
from runs.models import Cluster

__all__ = ["ENGINES", "Engine", "engine_of"]

ENGINES: dict[str, Engine] = {"celery": CeleryEngine()}


def engine_of(cluster: Cluster) -> Engine:
    """Return the engine of the cluster. Raises ValueError for a name that has none."""
    if cluster.engine not in ENGINES:
        known = ", ".join(sorted(ENGINES))
        raise ValueError(f"engine {cluster.engine!r} of cluster {cluster.name} is not built; there are: {known}")
    return ENGINES[cluster.engine]
