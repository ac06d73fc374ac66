"""What a cluster of engine ``kubernetes`` must know, and what it refuses."""

from __future__ import annotations

import re

from runs.engines.cluster_settings.checks import Check, checked, duration, number, path, program, server, text
from runs.engines.kubernetes.pod_template import TemplateProblem, mount_paths, read_template
from trainyard.contract.base import JsonObject, WireStruct, convert
from trainyard.contract.limits import MAX_SLOTS
from trainyard.spec.values.durations import seconds_of

MAX_MACHINES = 512
MAX_CPUS = 1_024
LEAST_LIMIT_S = 60.0
LEAST_NOTICE_S = 10.0  # a node needs a few seconds to send what it has
MAX_NOTICE_S = 3_600.0
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
IMAGE = re.compile(r"[a-z0-9][A-Za-z0-9._:/@-]{0,254}")
QUANTITY = re.compile(r"[1-9][0-9]{0,11}([kMGTP]|[KMGTP]i)?")
QUALIFIED = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


class KubernetesSettings(WireStruct, kw_only=True):
    """The settings of a cluster. Empty texts leave the choice to Kubernetes."""

    image: str = ""  # with Trainyard's extra ``node`` and PyTorch
    namespace: str = "default"
    kubeconfig: str = ""  # its path on this server; empty for the pod's own account, else the user's file
    context: str = ""  # of the kubeconfig
    machines: int = 2  # of all runs together, at most
    slots: int = 1  # ranks on each machine, at most
    cpus_per_slot: int = 1
    gpu_resource: str = ""  # of which each rank gets one, such as nvidia.com/gpu
    memory: str = ""  # of each machine, such as 16Gi
    folder: str = "/trainyard"  # in the pods: a volume that all pods of the cluster share
    claim: str = ""  # a PersistentVolumeClaim that is mounted there
    queue: str = ""  # of Kueue
    spread: str = ""  # a label of machines: the pods of an attempt are on machines with different values
    together: str = ""  # a label of machines: the pods of an attempt are on machines with one value
    time_limit: str = ""  # of a job, such as 4h
    notice: str = "2m"  # how long ranks may save before their machine is taken
    pod: str = ""  # a partial PodSpec in YAML
    python: str = "python3"  # the interpreter in the image that has Trainyard
    server: str = ""  # this server's address as the pods reach it

    @property
    def time_limit_s(self) -> float | None:
        return seconds_of(self.time_limit) if self.time_limit else None

    @property
    def notice_s(self) -> int:
        return int(seconds_of(self.notice))


def settings_of(document: JsonObject) -> KubernetesSettings:
    """Return settings as they are kept."""
    return convert(document, KubernetesSettings)


def checked_settings(document: JsonObject) -> JsonObject:
    """Return the settings with their defaults. Raises SettingsError."""
    return checked(KubernetesSettings, document, CHECKS, "Kubernetes", _problems_between)


def _problems_between(settings: KubernetesSettings) -> dict[str, str]:
    """Return what is wrong with values that are fine by themselves."""
    found = {}
    if settings.notice_s * 2 > (settings.time_limit_s or settings.notice_s * 2):
        found["notice"] = f"at most half of the time limit {settings.time_limit}, not {settings.notice!r}"
    is_mounted = settings.folder in mount_paths(read_template(settings.pod))
    if not settings.claim and not is_mounted:
        found["claim"] = (
            f"checkpoints need a volume at {settings.folder}: name a claim that pods of all machines may "
            "write, or mount one there in the pod template"
        )
    if settings.claim and is_mounted:
        found["claim"] = f"the pod template mounts another volume at {settings.folder} already"
    return found


def _folder(value: str) -> str:
    if value.endswith("/") or ".." in value.split("/"):
        return f"the plain path of a folder, without a slash at its end, not {value!r}"
    return path(value) if value else "where the shared volume is mounted in the pods"


def _pod(value: str) -> str:
    try:
        read_template(value)
    except TemplateProblem as error:
        return str(error)
    return ""


def _server_of_pods(value: str) -> str:
    if "$" in value:  # Kubernetes would put a variable there
        return f"an address without a dollar sign, not {value[:100]!r}"
    return server(value)


def _context(value: str) -> str:
    return "" if value.isprintable() and len(value) <= 200 else f"a context's name, not {value[:100]!r}"


CHECKS: dict[str, Check] = {
    "image": text(IMAGE, "an image such as trainyard:1", is_needed=True),
    "namespace": text(LABEL, "a namespace's name of small letters, digits and -", is_needed=True),
    "kubeconfig": path,
    "context": _context,
    "machines": number(1, MAX_MACHINES),
    "slots": number(1, MAX_SLOTS),
    "cpus_per_slot": number(1, MAX_CPUS),
    "gpu_resource": text(QUALIFIED, "a resource's name such as nvidia.com/gpu"),
    "memory": text(QUANTITY, "a size such as 16Gi"),
    "folder": _folder,
    "claim": text(NAME, "the name of a PersistentVolumeClaim"),
    "queue": text(NAME, "the name of a LocalQueue"),
    "spread": text(QUALIFIED, "a label of machines such as kubernetes.io/hostname"),
    "together": text(QUALIFIED, "a label of machines such as topology.kubernetes.io/zone"),
    "time_limit": duration(LEAST_LIMIT_S),
    "notice": duration(LEAST_NOTICE_S, MAX_NOTICE_S, is_needed=True),
    "pod": _pod,
    "python": program,
    "server": _server_of_pods,
}
