"""What a cluster of engine ``ray`` must know, and what it refuses."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import msgspec

from runs.engines.cluster_settings.checks import Check, checked, number, path, server, text
from runs.engines.cluster_settings.checks import shared_folder as folder
from runs.engines.ray.trainyard_ray.documents import Demand
from trainyard.contract.base import BadDocument, JsonObject, WireStruct, convert, decode
from trainyard.contract.limits import MAX_SLOTS

MAX_MACHINES = 512
MAX_CPUS = 1_024
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


class RaySettings(WireStruct, kw_only=True):
    """The settings of a cluster."""

    address: str = ""  # of Ray's head: host:port where this server is a machine of Ray, else ray://host:port
    folder: str = ""  # which the server need not see, but all machines of the cluster must
    machines: int = 2  # of all runs together, at most
    slots: int = 1  # ranks on each machine, at most
    cpus_per_slot: int = 1
    gpus: bool = False  # each rank gets one
    gpu_kind: str = ""  # Ray's accelerator type, such as A100
    memory: str = ""  # of each machine, such as 16G
    resources: list[str] = msgspec.field(default_factory=list)  # custom ones of each machine, name=amount
    strategy: str = "STRICT_SPREAD"
    python: str = ""  # the interpreter on the machines that has Trainyard; empty for the one that Ray runs on
    server: str = ""  # this server's address as the machines reach it
    ray_python: str = ""  # the interpreter on this server that has the cluster's version of Ray
    runtime_env: str = ""  # JSON, for Ray's actors

    def demand(self, slots: int) -> Demand:
        """Return what one machine with so many ranks must have."""
        resources = dict(map(_resource, self.resources))
        if self.gpus and self.gpu_kind:
            resources[f"accelerator_type:{self.gpu_kind}"] = 0.001  # as Ray's own accelerator_type asks
        memory = MEMORY.fullmatch(self.memory)
        num_bytes = int(memory[1]) * SIZES[memory[2]] if memory else 0
        return Demand(slots * self.cpus_per_slot, slots if self.gpus else 0, num_bytes, resources)


def settings_of(document: JsonObject) -> RaySettings:
    """Return settings as they are kept."""
    return convert(document, RaySettings)


def checked_settings(document: JsonObject) -> JsonObject:
    """Return the settings with their defaults. Raises SettingsError."""
    return checked(RaySettings, document, CHECKS, "Ray", _problems_between)


def _problems_between(settings: RaySettings) -> dict[str, str]:
    is_fine = settings.gpus or not settings.gpu_kind
    return {} if is_fine else {"gpu_kind": f"{settings.gpu_kind!r} is for ranks that get a GPU; check gpus"}


def _address(value: str) -> str:
    try:
        parts = urlsplit(value if "://" in value else f"gcs://{value}")
        is_fine = parts.scheme in ("gcs", "ray") and parts.hostname and parts.port and not parts.path
        is_fine = is_fine and parts.username is None and value.isascii() and value.isprintable() and " " not in value
    except ValueError:
        is_fine = False
    return "" if is_fine else f"host:port or ray://host:port, not {value[:100]!r}"


def _strategy(value: str) -> str:
    return "" if value in STRATEGIES else f"one of {', '.join(STRATEGIES)}, not {value[:100]!r}"


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
    if not value:
        return ""
    try:
        is_fine = len(value) <= MAX_RUNTIME_ENV and isinstance(decode(value, JsonObject), dict)
    except BadDocument:
        is_fine = False
    return "" if is_fine else f"a JSON object of at most {MAX_RUNTIME_ENV} characters, not {value[:100]!r}"


CHECKS: dict[str, Check] = {
    "address": _address,
    "folder": folder,
    "machines": number(1, MAX_MACHINES),
    "slots": number(1, MAX_SLOTS),
    "cpus_per_slot": number(1, MAX_CPUS),
    "gpu_kind": text(NAME, "a kind of GPU by Ray's name, such as A100"),
    "memory": text(MEMORY, "a size such as 16G"),
    "resources": _resources,
    "strategy": _strategy,
    "python": path,
    "server": server,
    "ray_python": path,
    "runtime_env": _runtime_env,
}
