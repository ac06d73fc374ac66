"""What a node's page says of its sandbox: the level, what a script reaches, its limits, and why there is no more."""

from __future__ import annotations

from typing import NamedTuple

from runs.models import Node
from trainyard.contract.machines import HIGHEST_LEVEL, NodeSandbox, SandboxLevel
from trainyard.formats.figures import number, size

KEPT = "Trainyard's own files, its sockets and its other processes are closed to it."
OTHER_USER = (
    f"A rank here is another Unix user, one for each project: {KEPT} It reads files that are open to all users."
)
BY_MECHANISM = {  # heading and sentence, by Inventory.isolation
    "user and namespace": ("Kept apart by user and by mounts", OTHER_USER),
    "user": ("Kept apart by user", OTHER_USER),
    "namespace": (
        "Kept apart by mounts",
        f"A rank here has its own view of the disk: {KEPT} It reads what else the node's user may read, and may end "
        "that user's processes.",
    ),
    "none": (
        "Not kept apart",
        "A script here can read what the node's user can read: the node's key, and on a machine that also runs the "
        "server its key and its databases. Let only people launch here whom you trust with all of it.",
    ),
}
ALONE = (
    "It sees the processes of its attempt alone, has no shared memory of System V with others, and is refused the "
    "system calls that lead out: mounts, namespaces, modules, clocks, kernel keys, io_uring."
)
NETWORK = "It reaches what this machine's network reaches."
OWN_TMP = "Its /tmp and /var/tmp are its attempt's own, and are removed with it."
SHARED_TMP = "Its /tmp is the machine's, where it sees the names of other users' files; TMPDIR is its attempt's own."
GUARDED = (
    "Runs of other projects on this machine do not reach its ports: PyTorch's store, TensorBoard. Other machines do: "
    "close the nodes' network to them."
)
UNGUARDED = (
    "Runs of other projects on this machine, and other machines, reach its ports, also PyTorch's store, which knows no "
    "password: {why}."
)
OWN_NETWORK = "It has a network of its own, which leads nowhere."


class IsolationView(NamedTuple):
    heading: str
    sentences: list[str]  # what a script reaches
    limits: list[str]  # what it may take
    missing: list[str]  # why the level is no higher


def isolation_of(node: Node) -> IsolationView:
    machine = node.machine
    heading, sentence = BY_MECHANISM.get(machine.isolation or "none", BY_MECHANISM["none"])
    level = node.sandbox_level or SandboxLevel.NONE
    known = machine.sandbox or NodeSandbox()
    reach = [sentence]
    if level >= SandboxLevel.NAMESPACES:
        heading += ", and alone in its namespaces"
        reach.append(ALONE)
    if known.has_own_network:
        reach.append(OWN_NETWORK)
    else:
        reach += [NETWORK, UNGUARDED.format(why=known.loopback_problem) if known.loopback_problem else GUARDED]
    if machine.sandbox and level:
        reach.append(OWN_TMP if known.has_own_tmp else SHARED_TMP)
    missing = list(known.missing)
    if level < node.cluster.isolation_minimum:
        missing.insert(
            0, f"Cluster {node.cluster.name} asks for level {node.cluster.isolation_minimum}: it places nothing here."
        )
    title = f"Sandbox level {level} of {HIGHEST_LEVEL}: {heading[0].lower()}{heading[1:]}"
    return IsolationView(title, reach, limits_of(known) if machine.sandbox else [], missing)


def limits_of(known: NodeSandbox) -> list[str]:
    """Return sentences about what ranks may take of the machine."""
    memory, cores = f"{size(known.memory_bytes)} of memory", f"{number(known.cpus)} cores"
    words = []
    if known.cgroup:
        words.append(f"Each attempt has a control group below {known.cgroup}.")
        words.append(f"A rank may take {memory}." if known.memory_bytes else "A run leaves the machine some memory.")
        words.append(f"A rank may take {cores}." if known.cpus else "Runs share the cores by their ranks.")
    else:
        words.append(f"No control group limits a run: {known.cgroup_problem or 'the node does not say why'}.")
        if known.memory_bytes:
            words.append(f"A process may take {memory}, but for ranks with GPUs.")
        else:
            words.append("Memory and cores are not limited.")
    if known.processes:
        words.append(f"The ranks of a project may have {known.processes:,} processes and threads.")
    return words
