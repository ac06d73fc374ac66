"""The engine ``ssh``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from django.conf import settings as django_settings

from runs.engines.allocating import AllocatingEngine, Offer
from runs.engines.cluster_settings.guarded import Guarded
from runs.engines.findings import Finding
from runs.engines.machine_system import mark_of
from runs.engines.openssh.identity import SECRET_NAME, identity_of, key_problem, of_key
from runs.engines.ssh.doctor import examine
from runs.engines.ssh.form import FIELDS
from runs.engines.ssh.hosts import Hosts
from runs.engines.ssh.settings import SshSettings, checked_settings, hosts_of, settings_of
from runs.engines.ssh.system import SshSystem
from runs.models import Cluster
from trainyard.contract.base import JsonObject


class SshEngine(AllocatingEngine):
    label = "SSH"
    about = "It starts nodes on hosts of a list for each run, and ends them with it."
    fields = FIELDS
    settings_type = SshSettings

    def checked(self, document: JsonObject) -> JsonObject:
        return checked_settings(document)

    def secret_problem(self, name: str, text: str) -> str:
        return key_problem(text) if name == SECRET_NAME else ""

    def guarded(self, document: JsonObject) -> Guarded:
        settings = settings_of(document)
        return of_key(settings.ssh_key_file, "hosts", [host.target for host in hosts_of(settings)])

    def offers(self, cluster: Cluster) -> list[Offer]:
        kinds = Counter((host.slots, host.gpu) for host in hosts_of(settings_of(cluster.settings)))
        return [Offer(number, slots, gpu) for (slots, gpu), number in sorted(kinds.items())]

    def system(self, cluster: Cluster) -> SshSystem:
        settings = settings_of(cluster.settings)
        server = settings.server or django_settings.PUBLIC_URL
        return SshSystem(cluster.name, settings, _hosts(cluster), server)

    def examine(self, cluster: Cluster) -> Iterator[Finding]:
        settings = settings_of(cluster.settings)
        server = settings.server or django_settings.PUBLIC_URL
        yield from examine(settings, lambda: _hosts(cluster), server, str(django_settings.NODES_REDIS_URL))


def _hosts(cluster: Cluster) -> Hosts:
    """Raises SystemAway where there is no key."""
    settings = settings_of(cluster.settings)
    identity = identity_of(cluster, settings.ssh_key_file)
    return Hosts(hosts_of(settings), identity, settings.interpreter, settings.folder, mark_of(cluster.pk))
