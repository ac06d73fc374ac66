"""Step by step, whether the hosts of an SSH cluster can run what is launched on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from runs.engines.findings import Finding
from runs.engines.machine_system import SystemAway
from runs.engines.probes import probe_answers, probe_findings, probe_names, probe_words
from runs.engines.ssh.hosts import HostProblem, Hosts
from runs.engines.ssh.settings import SshSettings
from trainyard.contract.base import JsonObject

PROBE_LIMIT_S = 60.0


def examine(
    settings: SshSettings, hosts_of_cluster: Callable[[], Hosts], server: str, redis_url: str
) -> Iterator[Finding]:
    """Yield what is found, one step after the other; a step that needs an earlier one is left out where that failed."""
    try:
        hosts = hosts_of_cluster()
    except SystemAway as error:
        yield Finding("key", False, str(error), "Enter the private key, or the path of its file, in its settings.")
        return
    yield Finding("key", True, "The cluster has a private key.")
    words = probe_words(settings.interpreter, server, redis_url, settings.folder)
    answers: list[JsonObject] = []
    for host in hosts.all:
        try:
            found = probe_answers(hosts.run(host, words, limit_s=PROBE_LIMIT_S))
        except SystemAway as error:
            yield Finding("host", False, str(error), f"By hand: ssh -p {host.target.port} {host.label.split(':')[0]}")
        except HostProblem as error:
            advice = f"Trainyard must be there: {settings.interpreter} -m workers.machine.probe"
            yield Finding("host", False, str(error), advice)
        else:
            answers += found
            sentence = f"{host.label} ({host.target.fingerprint}) answers: {probe_names(found)}."
            yield Finding("host", bool(found), sentence)
    if answers:
        yield from probe_findings(answers, server, redis_url, settings.folder)
