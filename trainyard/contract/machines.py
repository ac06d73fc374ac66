"""A node's machine: its inventory, its health, and its checks of itself."""

import re
from enum import IntEnum
from typing import Annotated

import msgspec

from trainyard.contract.base import Id, Name, Seconds, Sentence, Whole, WireStruct
from trainyard.contract.limits import MAX_SLOTS

PODMAN = "podman"  # among the tools of a node whose ranks can run in containers
NEARLY_FULL = 0.95  # of a memory or a disk: a busy processor is no trouble
MAX_PEERS = 32  # other nodes to which one node tries connections
MAX_KEPT = 200  # things that a node names of those that it keeps for runs
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}")  # a name or value of a node's label


class SandboxLevel(IntEnum):
    """Levels at which a node keeps the ranks of a project from itself, from the server and from other runs."""

    NONE = 0
    USER = 1  # a Unix user for each project, or a view of the disk of its own
    NAMESPACES = 2  # and namespaces for each attempt, with a filter of system calls
    CONTAINER = 3  # of a run that asks for one (environment.container), and of no node


HIGHEST_LEVEL = SandboxLevel.NAMESPACES


def sandbox_level(text: str, field: str) -> SandboxLevel:
    """Return the level of this number. Raises ValueError, which names ``field`` and the value."""
    if text == str(SandboxLevel.CONTAINER):
        words = "level 3 is a container, which a run asks for (environment.container)"
        raise ValueError(f"{field}: {words}. The highest is {HIGHEST_LEVEL}.")
    if text not in {str(int(one)) for one in SandboxLevel}:
        raise ValueError(f"{field}: {text[:20]!r} is no sandbox level. They are 0, 1 and 2.")
    return SandboxLevel(int(text))


class NodeSandbox(WireStruct, kw_only=True):
    """Sandboxes that the node can make, found as it started, and limits of its ranks. A number of 0 is no limit."""

    level: Whole = 0  # a SandboxLevel; a newer node may have others
    setting: Name = "auto"
    missing: list[Sentence] = []  # why the level is no higher
    processes: Whole = 0  # of a project's ranks, threads counted
    memory_bytes: Whole = 0  # of one rank
    cpus: float = 0.0  # of one rank
    cgroup: Sentence = ""  # the control group below which attempts have theirs
    cgroup_problem: Sentence = ""  # why there is none
    has_own_network: bool = False  # attempts of one node have a network of their own
    has_own_tmp: bool = False  # attempts have a /tmp and a /var/tmp of their own
    loopback_problem: Sentence = "the node does not say"  # why projects reach each other's ports; empty: they do not


class Gpu(WireStruct):
    index: Whole | None = None
    name: Name | None = None
    uuid: Name | None = None
    memory_bytes: Whole | None = None


class Cpu(WireStruct):
    model: Name | None = None
    count: Whole | None = None  # the node's share of the cores
    machine_count: Whole | None = None  # cores that the nodes of this machine may use together


class Inventory(WireStruct):
    """Parts of the machine. None where the node does not know."""

    hostname: Name | None = None
    platform: Name | None = None
    python: Name | None = None  # version
    torch: Name | None = None  # version, None without it
    cpu: Cpu | None = None
    memory_bytes: Whole | None = None
    disk_bytes: Whole | None = None
    slots: Annotated[int, msgspec.Meta(ge=1, le=MAX_SLOTS)] | None = None  # that the node was started with, if named
    gpus: Annotated[list[Gpu], msgspec.Meta(max_length=MAX_SLOTS)] | None = None
    driver: Name | None = None  # version of NVIDIA's
    isolation: Name | None = None  # by which mechanism scripts are kept from the node's files
    sandbox: NodeSandbox | None = None  # None: an older node
    memory_port: Whole | None = None  # where it receives parts of states of runs; None: it keeps none in memory
    memory_limit_bytes: Whole | None = None  # that these may take
    memory_problem: Name | None = None  # why it keeps none
    is_warm: bool | None = None  # whether its warm process is there, which begins attempts at once. None: an older node
    # What it can build environments with: uv or pip, conda; PODMAN runs containers. None: an older node.
    tools: list[Name] | None = None
    labels: Annotated[dict[Name, Name], msgspec.Meta(max_length=64)] | None = None  # that the node was started with
    # What runs find there, by `Needs.kept`, with the bytes of images: of data and of what it has built 0.
    kept: Annotated[dict[Name, Whole], msgspec.Meta(max_length=MAX_KEPT)] | None = None


class GpuHealth(WireStruct):
    index: Whole | None = None
    utilization_percent: float | None = None
    memory_bytes: Whole | None = None
    memory_used_bytes: Whole | None = None
    temperature_c: float | None = None
    power_w: float | None = None


class Health(WireStruct):
    """Health of the machine now. Rates and percentages are about the time since the sample before."""

    cpu_percent: float | None = None
    load: float | None = None  # of one minute
    memory_bytes: Whole | None = None
    memory_used_bytes: Whole | None = None
    disk_bytes: Whole | None = None
    disk_used_bytes: Whole | None = None
    network_received_bytes_per_s: float | None = None
    network_sent_bytes_per_s: float | None = None
    gpus: list[GpuHealth] | None = None


class HealthSample(Health, kw_only=True):
    """A sample on its way through the stream."""

    at: Seconds


class FolderState(WireStruct, kw_only=True):
    """A folder that the node writes into. ``problem``: why nothing can be written there, as the end of a sentence."""

    path: Annotated[str, msgspec.Meta(max_length=1_000)]
    problem: Sentence = ""
    free_bytes: Whole | None = None
    total_bytes: Whole | None = None


class GpuFaults(WireStruct, kw_only=True):
    """Faults that a GPU reports. None where NVML does not know."""

    index: Whole
    ecc_errors: Whole | None = None  # uncorrected, since the driver was loaded
    xid: Whole | None = None  # the last one since the node worker began
    slowed_by: list[Name] = []  # heat or power: why its clock is lower than it could be


class PeerResult(WireStruct, kw_only=True):
    """A connection to another node, tried ``at`` Unix seconds. ``problem``: the end of a sentence about it."""

    at: Seconds
    problem: Sentence = ""
    seconds: float | None = None  # from a message to its answer


class CollectiveResult(WireStruct, kw_only=True):
    """Result of a short collective over nodes on this node. ``problem``: why it failed, as the end of a sentence."""

    problem: Sentence = ""
    latency_s: float | None = None  # of an all-reduce of one number
    bytes_per_s: float | None = None  # that a node sends in one of 4 MiB
    world_size: Whole = 0


class SelfCheck(WireStruct, kw_only=True):
    """Findings of a node about itself and the nodes around it."""

    at: Seconds
    home: FolderState | None = None  # attempts, their spools and output, and what is cached
    checkpoints: FolderState | None = None
    clock_ahead_s: float | None = None  # of Valkey's; in the node's row: of the server's
    port: Whole | None = None  # at which it answers other nodes
    peers: Annotated[dict[Id, PeerResult], msgspec.Meta(max_length=MAX_PEERS)] = {}  # by node id
    gpus: list[GpuFaults] | None = None
    meeting_port: Whole | None = None  # kept free for a collective over nodes
    collective: CollectiveResult | None = None  # of the preflight that it answers
    answers: Id = ""  # the preflight that was asked for last, once this look is newer than it
