"""Step by step, whether the hosts of an SSH cluster can run what is launched on it."""

from __future__ import annotations

from collections.abc import Iterator

from runs.engines.findings import Finding, Probe, probe_answers, probe_names
from runs.engines.machine_system import SystemAway
from runs.engines.ssh.hosts import HostProblem, Hosts
from runs.engines.ssh.settings import SshSettings
from trainyard.contract.base import JsonObject

PROBE_LIMIT_S = 60.0


def examine(settings: SshSettings, hosts: Hosts, probe: Probe) -> Iterator[Finding]:
    """Yield what is found, one step after the other."""
    yield Finding("key", True, "The cluster has a private key.")
    words = probe.words(settings.interpreter, settings.folder)
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
        yield from probe.findings(answers, settings.folder)
