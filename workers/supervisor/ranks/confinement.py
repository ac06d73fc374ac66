"""Confinement of the ranks of one attempt on this node: their namespaces, and their control group with its limits.

Both are made before the supervisor reads the node's key, and end with it.
"""

import contextlib
import mmap
import os
import signal
import sys
import tempfile
import traceback
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NoReturn

import msgspec
import structlog

from trainyard.contract.base import decode, encode
from trainyard.contract.machines import SandboxLevel
from trainyard.contract.orders import Order
from trainyard.spec.sections.environment import has_container
from trainyard.spooling.held_folder import remove_tree
from workers.attempt.folder import AttemptFolder
from workers.attempt.temporary import give_name
from workers.containers.documents import SHARED, SHARED_MEMORY
from workers.machine.processes import die_with_parent, is_exiting, name_process, open_descriptors
from workers.progress import marker
from workers.rank_process.run import RankPlan, become_rank
from workers.sandbox import cgroups
from workers.sandbox.loopback import Guard
from workers.sandbox.namespaces import NamespaceHolder
from workers.sandbox.node import Isolation, project_users, user_of
from workers.sandbox.process import TEMPORARY
from workers.supervisor.ranks.state import RankState

log = structlog.get_logger(__name__)

LOOPBACK = "127.0.0.1"


class Confinement:
    """``address``: the node's, which the ranks find in a network of their own, too. Raises OSError."""

    def __init__(self, isolation: Isolation, order: Order, folder: AttemptFolder, address: str) -> None:
        self.isolation, self._order, self._folder, self._address = isolation, order, folder, address
        self._has_own_network = isolation.has_own_network and order.num_nodes == 1
        self._holder = NamespaceHolder()
        self._guard: Guard | None = None
        self._has_containers = has_container(order.spec)
        self.shared_memory = self._make_shared_memory() if self._has_containers else None
        self._limits = limits_of(isolation, order.num_ranks)
        self._group = self._make_group()
        self._events = cgroups.MemoryEvents()
        self._kills = cgroups.count_memory_kills()

    @property
    def address(self) -> str:
        """The address at which the ranks find each other: its interface is theirs."""
        return LOOPBACK if self._has_own_network else self._address

    def keep(self) -> None:
        """Call it now and then: what clears /tmp of old files takes the name away, and a guard may have to wait."""
        self.name_temporary()
        if self._guard is not None:
            self._guard.hold()

    def name_temporary(self) -> Path:
        """Return TMPDIR of the ranks."""
        if self.isolation.has_own_tmp and not self._has_containers:
            return Path(TEMPORARY[0])
        return give_name(self._folder.temporary, self._folder.attempt)

    @property
    def sockets(self) -> Path:
        """The folder where the kernel lists the sockets of the ranks' network, also after the end of a rank."""
        return Path(f"/proc/{self._holder.pid if self._has_own_network else 'self'}/net")

    def fork_waiting(self, *, has_pipes: bool) -> None:
        """Fork the processes that will be the ranks. Call it while this process has one thread. One that becomes
        Podman stays outside of the namespaces, into which Podman puts its container, at every level: process 1 of a
        namespace of its own would not get most signals."""
        inside: AbstractContextManager[None] = nullcontext()
        if self.isolation.level >= SandboxLevel.NAMESPACES or self._has_containers:
            inside = self._holder.for_children(address=self._address if self._has_own_network else "")
        with inside:
            if not self._has_containers:
                self._fork(has_pipes=has_pipes)
        if self._has_containers:
            self._fork(has_pipes=has_pipes)
        if not self.isolation.loopback_problem:  # after the forks: no rank is to hold it
            self._guard = Guard(project_users())

    def _fork(self, *, has_pipes: bool) -> None:
        self.waiting = WaitingProcesses(self._order.num_ranks, has_pipes=has_pipes)

    def confined(self, plan: RankPlan) -> RankPlan:
        """Return the plan with what all ranks of the attempt share in its sandbox."""
        network, group = self._has_own_network, str(self._group or "")
        of_all = {"holder": self._holder.pid, "has_own_network": network, "cgroup": group}
        if plan.container is not None:
            container = msgspec.structs.replace(
                plan.container,
                **of_all,
                shared_memory=str(self.shared_memory or ""),
                memory_bytes=self.isolation.memory_bytes,
                cpus=self.isolation.cpus,
                processes=self.isolation.processes,
            )
            return msgspec.structs.replace(plan, container=container)
        # A GPU's driver reserves more than it uses.
        is_limited = self._group is None and self._order.accelerator == "cpu"
        data_bytes = self.isolation.memory_bytes if is_limited else 0
        sandbox = msgspec.structs.replace(plan.sandbox, **of_all, data_bytes=data_bytes)
        return msgspec.structs.replace(plan, sandbox=sandbox)

    def record_memory(self, rank: RankState) -> None:
        """Record in a rank that has ended whether the kernel killed for memory meanwhile, and by which limit."""
        if self._group is None:
            rank.oom_killed = cgroups.count_memory_kills() > self._kills
            if rank.oom_killed and self._has_containers:
                rank.memory_limit_bytes = self.isolation.memory_bytes or None
            return
        events = cgroups.memory_events(self._group)
        rank.oom_killed = events.oom_kill > self._events.oom_kill
        if events.oom > self._events.oom:
            rank.memory_limit_bytes = self._limits.memory_bytes

    @property
    def user(self) -> int:
        """The Unix user that the ranks are where it is another than ours, else -1."""
        return user_of(self._order.spec.get("project", "")) if self.isolation.is_other_user else -1

    @property
    def has_lost_holder(self) -> bool:
        """Return whether the holder of the namespaces ends or ended: the kernel then ends all ranks, and it last."""
        return self._holder.pid != 0 and is_exiting(self._holder.pid)

    def close(self) -> None:
        """Remove what was made. The processes have ended."""
        self._holder.close()
        if self._guard is not None:
            self._guard.close()
        if self.shared_memory is not None:
            remove_tree(self.shared_memory)
        if self._group is not None:
            cgroups.remove(self._group)

    def _make_shared_memory(self) -> Path:
        """Make the folder that the containers of the attempt share as /dev/shm: each has a mount of its own, where
        NCCL's ranks would not find each other."""
        folder = Path(tempfile.mkdtemp(prefix=f"{SHARED_MEMORY}{self._order.attempt}-", dir=SHARED))
        if self.user >= 0:
            os.chown(folder, self.user, self.user)
        return folder

    def _make_group(self) -> Path | None:
        if not self.isolation.cgroup:
            return None
        try:
            return cgroups.make(Path(self.isolation.cgroup), self._order.attempt, self._limits)
        except OSError as error:  # it was taken away since the node worker began
            log.warning("attempt.without_cgroup", error=str(error))
            return None


def limits_of(isolation: Isolation, num_ranks: int) -> cgroups.CgroupLimits:
    memory = isolation.memory_bytes * num_ranks
    if isolation.cgroup and not memory:
        memory = cgroups.memory_to_share(Path(isolation.cgroup))
    return cgroups.CgroupLimits(memory, isolation.cpus * num_ranks, isolation.processes, 100 * max(1, num_ranks))


# Processes that wait to become ranks.
#
# They are forked before the supervisor has read the node's key: what a rank's script finds in its own memory, or in
# that of the warm process, holds nothing of the node's.


class WaitingProcesses:
    def __init__(self, num_ranks: int, *, has_pipes: bool = False) -> None:
        """``has_pipes``: what the ranks print comes by ``pipes``, of stdout and stderr, in the order of the ranks."""
        memories = [mmap.mmap(-1, marker.SIZE) for _ in range(num_ranks)]
        self.pipes: list[tuple[int, int]] = []
        self._waiting = [self._fork(memory, has_pipes=has_pipes) for memory in memories]
        self.markers = [marker.Marker(memory) for memory in memories]  # in the order of the ranks

    def start(self, plan: RankPlan) -> int:
        """Let the next process become the rank, and return its pid. A process that was killed meanwhile is reaped like
        any other."""
        pid, writer = self._waiting.pop(0)
        with contextlib.suppress(BrokenPipeError), os.fdopen(writer, "wb") as pipe:
            pipe.write(encode(plan).encode())
        return pid

    def _fork(self, memory: mmap.mmap, *, has_pipes: bool) -> tuple[int, int]:
        parent = os.getpid()
        reader, writer = os.pipe()
        pairs = [os.pipe(), os.pipe()] if has_pipes else []
        output = tuple(write for _, write in pairs)
        pid = os.fork()
        if pid == 0:
            _wait(reader, parent, memory, output)
        os.close(reader)
        for descriptor in output:
            os.close(descriptor)
        if has_pipes:
            self.pipes.append((pairs[0][0], pairs[1][0]))
        return pid, writer


def _wait(reader: int, parent: int, memory: mmap.mmap, output: tuple[int, ...]) -> NoReturn:
    try:
        marker.share(memory)
        die_with_parent(signal.SIGKILL, parent)
        name_process("ty-waiting")
        for number in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, signal.SIG_DFL)
        for descriptor in set(open_descriptors()) - {reader, *output}:
            with contextlib.suppress(OSError):  # the one that listed the folder is closed already
                os.close(descriptor)
        data = b"".join(iter(lambda: os.read(reader, 1 << 16), b""))
        plan = decode(data, RankPlan) if data else None
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    if plan is None:
        os._exit(0)
    become_rank(plan, parent, output)
