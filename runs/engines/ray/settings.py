"""Settings of a cluster of engine ``ray``, and the values it refuses."""

import re
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import urlsplit

from runs.engines.cluster_settings import checks, settings
from runs.engines.cluster_settings.settings import SECRET, Guarded, Offer, Places, Settings, field
from runs.engines.ray.trainyard_ray.documents import Demand
from trainyard.contract.base import BadDocument, JsonObject, decode

STRATEGIES = {
    "STRICT_SPREAD": "each on a machine of its own (STRICT_SPREAD)",
    "SPREAD": "on different machines where there are some (SPREAD)",
    "PACK": "on few machines (PACK)",
    "STRICT_PACK": "on one machine (STRICT_PACK)",
}
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,59}")
MEMORY = re.compile(r"([1-9][0-9]{0,8})([KMGT])")
SIZES = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
OWN = frozenset({"CPU", "GPU", "memory", "object_store_memory"})  # resources that have settings of their own
MAX_RESOURCES = 20
MAX_RUNTIME_ENV = 10_000
MAX_TOKEN = 1_000


def _address(value: str) -> str:
    try:
        parts = urlsplit(value if "://" in value else f"gcs://{value}")
        is_fine = parts.scheme in ("gcs", "ray") and parts.hostname and parts.port and not parts.path
        is_fine = is_fine and parts.username is None and value.isascii() and value.isprintable() and " " not in value
    except ValueError:
        is_fine = False
    return "" if is_fine else f"host:port or ray://host:port, not {value[:100]!r}"


def _resources(lines: list[str]) -> str:
    if len(lines) > MAX_RESOURCES:
        return f"at most {MAX_RESOURCES} lines, not {len(lines)}"
    for line in lines:
        try:
            name, amount = _resource(line)
        except ValueError:
            return f"name=amount in each line, not {line[:100]!r}"
        if not NAME.fullmatch(name) or name in OWN:
            return f"names of custom resources, not {name[:100]!r}"
        if not 0 < amount < 1e9 or (amount > 1 and amount % 1):
            return f"amounts above 0, whole ones from 1 on, not {line[:100]!r}"
    return ""


def _resource(line: str) -> tuple[str, float]:
    name, _, amount = line.partition("=")
    return name.strip(), float(amount)


def _runtime_env(value: str) -> str:
    try:
        is_fine = len(value) <= MAX_RUNTIME_ENV and isinstance(decode(value, JsonObject), dict)
    except BadDocument:
        is_fine = False
    return "" if is_fine else f"a JSON object of at most {MAX_RUNTIME_ENV} characters, not {value[:100]!r}"


def _token(value: str) -> str:
    is_fine = value.isascii() and value.isprintable() and len(value) <= MAX_TOKEN
    return "" if is_fine else f"at most {MAX_TOKEN} letters, digits and signs in one line"


@dataclass(frozen=True, kw_only=True)
class RaySettings(Settings):
    address: str = field(
        "Ray's address",
        "host:6379 where this server is a machine of the Ray cluster, else ray://host:10001 (Ray Client).",
        _address,
        is_needed=True,
        placeholder="ray://head:10001",
    )
    token: ClassVar[str] = field(
        "Ray's token", "Where the Ray cluster asks for one (RAY_AUTH_MODE=token).", _token, kind=SECRET
    )
    folder: str = settings.shared_folder("Ray's user", "what nodes print")
    machines: int = settings.machines(heading="Machines of a run")
    slots: int = settings.slots()
    cpus_per_slot: int = field("CPUs for a rank", "As Ray counts them.", checks.number(1, checks.MAX_CPUS), default=1)
    gpus: bool = field("A GPU for each rank", default=False)
    gpu_kind: str = field(
        "Kind of GPU",
        "Ray's accelerator type, such as A100; empty for any.",
        checks.text(NAME, "a kind of GPU by Ray's name, such as A100"),
    )
    memory: str = settings.memory("Such as 16G, as Ray counts it; empty to ask for none.", MEMORY, "16G")
    resources: list[str] = field("Custom resources", "Of a machine, one name=amount a line.", _resources, default=[])
    strategy: str = field(
        "Where its machines are", "Ray's placement strategy.", default="STRICT_SPREAD", choices=STRATEGIES
    )
    python: str = settings.python("the machines", "the one that Ray runs on", heading="Programs and addresses")
    server: str = settings.server()
    ray_python: str = field(
        "Python with Ray",
        "An interpreter on this server with the Ray and the Python version of the cluster; empty for the server's own.",
        checks.path,
    )
    runtime_env: str = field("Runtime environment", "Of Ray's actors, as JSON; empty for none.", _runtime_env)

    def problems(self) -> dict[str, str]:
        is_fine = self.gpus or not self.gpu_kind
        return {} if is_fine else {"gpu_kind": f"{self.gpu_kind!r} is for ranks that get a GPU; check gpus"}

    def offers(self) -> list[Offer]:
        return [Offer(self.machines, self.slots, (self.gpu_kind or "GPU") if self.gpus else "")]

    def guarded(self) -> Guarded:
        """Ray reads files of this server that a runtime environment names, and ships them to the cluster."""
        on_server = {"ray_python": self.ray_python, "runtime_env": self.runtime_env}
        return Guarded(on_server, {"token": Places({self.address})})

    def demand(self, slots: int) -> Demand:
        """Return what one machine with so many ranks must have."""
        resources = dict(map(_resource, self.resources))
        if self.gpus and self.gpu_kind:
            resources[f"accelerator_type:{self.gpu_kind}"] = 0.001  # as Ray's own accelerator_type asks
        memory = MEMORY.fullmatch(self.memory)
        num_bytes = int(memory[1]) * SIZES[memory[2]] if memory else 0
        return Demand(slots * self.cpus_per_slot, slots if self.gpus else 0, num_bytes, resources)
