"""The engine ``kubernetes``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from django.conf import settings as django_settings

from runs.engines.allocating import AllocatingEngine, Offer
from runs.engines.cluster_settings.guarded import Guarded
from runs.engines.findings import Finding
from runs.engines.kubernetes.api import Api
from runs.engines.kubernetes.doctor import examine
from runs.engines.kubernetes.form import FIELDS
from runs.engines.kubernetes.manifests import Origin
from runs.engines.kubernetes.settings import KubernetesSettings, checked_settings, settings_of
from runs.engines.kubernetes.system import KubernetesSystem
from runs.engines.machine_system import mark_of
from runs.models import Cluster
from trainyard.contract.base import JsonObject


class KubernetesEngine(AllocatingEngine):
    label = "Kubernetes"
    fields = FIELDS
    settings_type = KubernetesSettings

    def checked(self, document: JsonObject) -> JsonObject:
        return checked_settings(document)

    def guarded(self, document: JsonObject) -> Guarded:
        """A kubeconfig may name programs that sign in, and its contexts other users."""
        settings = settings_of(document)
        return Guarded(
            {"kubeconfig": settings.kubeconfig, "context": settings.context},
            identity="" if settings.kubeconfig else "kubeconfig",
        )

    def offers(self, cluster: Cluster) -> Sequence[Offer]:
        settings = settings_of(cluster.settings)
        return [Offer(settings.machines, settings.slots, "GPU" if settings.gpu_resource else "")]

    def system(self, cluster: Cluster) -> KubernetesSystem:
        settings = settings_of(cluster.settings)
        return KubernetesSystem(settings, origin_of(cluster, settings), Api(settings, django_settings.HOME))

    def examine(self, cluster: Cluster) -> Iterator[Finding]:
        settings = settings_of(cluster.settings)
        yield from examine(
            settings, origin_of(cluster, settings), str(django_settings.NODES_REDIS_URL), django_settings.HOME
        )


def origin_of(cluster: Cluster, settings: KubernetesSettings) -> Origin:
    return Origin(mark_of(cluster.pk), cluster.name, settings.server or django_settings.PUBLIC_URL)
