"""Ways in which control reaches the machines of a cluster, by the name of the cluster's engine."""

from runs.engines.allocating import AllocatingEngine, has_pool
from runs.engines.celery import CeleryEngine
from runs.engines.kubernetes.engine import KubernetesEngine
from runs.engines.ray.engine import RayEngine
from runs.engines.sagemaker.engine import SageMakerEngine
from runs.engines.slurm.engine import SlurmEngine
from runs.engines.ssh.engine import SshEngine
from runs.models import Cluster

ENGINES: dict[str, CeleryEngine] = {
    "celery": CeleryEngine(),
    "kubernetes": KubernetesEngine(),
    "ray": RayEngine(),
    "sagemaker": SageMakerEngine(),
    "slurm": SlurmEngine(),
    "ssh": SshEngine(),
}


def engine_of(cluster: Cluster) -> CeleryEngine:
    """Return the engine of the cluster. Raises ValueError for a name that has none."""
    if cluster.engine not in ENGINES:
        known = ", ".join(sorted(ENGINES))
        raise ValueError(f"engine {cluster.engine!r} of cluster {cluster.name} is not built; there are: {known}")
    return ENGINES[cluster.engine]


def allocating_engine(name: str) -> AllocatingEngine | None:
    """Return the engine of that name where it brings nodes; None for one whose nodes stay."""
    engine = ENGINES.get(name)
    return engine if isinstance(engine, AllocatingEngine) else None


def brings_nodes(cluster: Cluster) -> bool:
    """Return whether each run there gets machines of its own, which leave with it."""
    return allocating_engine(cluster.engine) is not None and not has_pool(cluster)
