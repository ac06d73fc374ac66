"""Settings of a cluster of engine ``kubernetes``, and the values it refuses."""

import re
from dataclasses import dataclass

from runs.engines.cluster_settings import checks, settings
from runs.engines.cluster_settings.settings import YAML, Guarded, Offer, Settings, field
from runs.engines.kubernetes.pod_template import mount_paths, read_template
from trainyard.spec.values.durations import seconds_of

LEAST_NOTICE_S = 10.0  # a node needs a few seconds to send what it has
MAX_NOTICE_S = 3_600.0
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
IMAGE = re.compile(r"[a-z0-9][A-Za-z0-9._:/@-]{0,254}")
QUANTITY = re.compile(r"[1-9][0-9]{0,11}([kMGTP]|[KMGTP]i)?")
QUALIFIED = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def _folder(value: str) -> str:
    if value.endswith("/") or ".." in value.split("/"):
        return f"the plain path of a folder, without a slash at its end, not {value!r}"
    return checks.path(value) if value else "where the shared volume is mounted in the pods"


def _server_of_pods(value: str) -> str:
    if "$" in value:  # Kubernetes would put a variable there
        return f"an address without a dollar sign, not {value[:100]!r}"
    return checks.server(value)


def _context(value: str) -> str:
    return "" if value.isprintable() and len(value) <= 200 else f"a context's name, not {value[:100]!r}"


@dataclass(frozen=True, kw_only=True)
class KubernetesSettings(Settings):
    """The settings of a cluster. Empty texts leave the choice to Kubernetes."""

    kubeconfig: str = field(
        "Kubeconfig",
        "Its path on this server; empty for the account of the pod that the server runs in.",
        checks.path,
        heading="The API server",
    )
    context: str = field("Context", "Of the kubeconfig; empty for its current one.", _context)
    namespace: str = field(
        "Namespace",
        "Where jobs, services and secrets are made.",
        checks.text(LABEL, "a namespace's name of small letters, digits and -"),
        default="default",
        is_needed=True,
    )
    server: str = settings.server("the pods", _server_of_pods)
    image: str = field(
        "Image",
        "With Trainyard's extra node and PyTorch, such as trainyard:1.",
        checks.text(IMAGE, "an image such as trainyard:1"),
        is_needed=True,
        heading="Machines: one pod each",
    )
    python: str = settings.python_of_image()
    machines: int = settings.machines()
    slots: int = settings.slots()
    cpus_per_slot: int = field(
        "Cores for a rank", "Requested; no limit is set.", checks.number(1, checks.MAX_CPUS), default=1
    )
    gpu_resource: str = field(
        "GPU resource",
        "Each rank gets one of it, such as nvidia.com/gpu; empty for CPUs.",
        checks.text(QUALIFIED, "a resource's name such as nvidia.com/gpu"),
    )
    memory: str = settings.memory("Request and limit, such as 16Gi; empty for none.", QUANTITY, "16Gi")
    claim: str = field(
        "Claim",
        "A PersistentVolumeClaim that many machines may write at once; checkpoints go there.",
        checks.text(NAME, "the name of a PersistentVolumeClaim"),
        heading="Storage",
    )
    folder: str = field(
        "Shared folder", "Where the pods find that volume.", _folder, default="/trainyard", is_needed=True
    )
    queue: str = field(
        "Kueue's queue",
        "A LocalQueue of the namespace that admits the jobs; empty without Kueue.",
        checks.text(NAME, "the name of a LocalQueue"),
        heading="Place and time",
    )
    spread: str = field(
        "Spread over",
        "A label of machines, such as kubernetes.io/hostname: pods of a run differ in it.",
        checks.text(QUALIFIED, "a label of machines such as kubernetes.io/hostname"),
    )
    together: str = field(
        "Keep within",
        "A label of machines, such as topology.kubernetes.io/zone: pods of a run share it.",
        checks.text(QUALIFIED, "a label of machines such as topology.kubernetes.io/zone"),
    )
    time_limit: str = settings.time_limit(checks.duration(checks.LEAST_LIMIT_S))
    notice: str = field(
        "Notice",
        "How long ranks may save before their pod is killed, such as 2m.",
        checks.duration(LEAST_NOTICE_S, MAX_NOTICE_S),
        default="2m",
        is_needed=True,
    )
    pod: str = field(
        "Pod template",
        "A partial PodSpec in YAML, laid over ours: tolerations, nodeSelector, volumes, imagePullSecrets and more. "
        "Environment, mounts and other resources stand below containers, in the one named node.",
        checks.read_by(read_template),
        kind=YAML,
        placeholder="tolerations:\n- key: nvidia.com/gpu\n  operator: Exists",
    )

    @property
    def time_limit_s(self) -> float | None:
        return seconds_of(self.time_limit) if self.time_limit else None

    @property
    def notice_s(self) -> int:
        return int(seconds_of(self.notice))

    def problems(self) -> dict[str, str]:
        found = {}
        if self.notice_s * 2 > (self.time_limit_s or self.notice_s * 2):
            found["notice"] = f"at most half of the time limit {self.time_limit}, not {self.notice!r}"
        is_mounted = self.folder in mount_paths(read_template(self.pod))
        if not self.claim and not is_mounted:
            words = "name a claim that pods of all machines may write, or mount one there in the pod template"
            found["claim"] = f"checkpoints need a volume at {self.folder}: {words}"
        if self.claim and is_mounted:
            found["claim"] = f"the pod template mounts another volume at {self.folder} already"
        return found

    def offers(self) -> list[Offer]:
        return [Offer(self.machines, self.slots, "GPU" if self.gpu_resource else "")]

    def guarded(self) -> Guarded:
        """A kubeconfig may name programs that sign in, and its contexts other users."""
        own = {"kubeconfig": self.kubeconfig, "context": self.context}
        return Guarded(own, identity="" if self.kubeconfig else "kubeconfig")
