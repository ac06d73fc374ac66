"""Checks of a node by itself, beside its inventory and its health: folders, clock, GPUs' faults, and its peers."""

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import redis
from msgspec.structs import replace

from trainyard.contract.base import BadDocument, decode
from trainyard.contract.desired import CollectivePlan, ProbeRequest
from trainyard.contract.machines import CollectiveResult, FolderState, SelfCheck
from trainyard.spooling.plain_files import create_plain
from workers.machine.gpus import FaultReader
from workers.machine.passed_variables import passed_variables
from workers.node.preflight.peers import Peers, ProbeListener
from workers.supervisor.ranks.launch import interface_of, reserve_port

MODULE = "workers.training.communication.probe"
ROOT = Path(__file__).resolve().parents[3]
LIMIT_S = 60.0  # with the import of torch
MAX_PROBLEM = 300
TRIES = 3
LOOK_EVERY_S = 5.0
PROBE_BYTES = 4096


class SelfChecker:
    """``step`` looks at what is due, in a thread that may wait for a slow disk or a silent peer; ``latest`` is read by
    the thread that sends the node's status. ``sooner`` is set when something is due at once."""

    def __init__(
        self, client: redis.Redis, *, node: str, address: str, home: Path, checkpoints: Path, gpus: FaultReader
    ) -> None:
        self._client, self._home, self._checkpoints, self._gpus = client, home, checkpoints, gpus
        self._listener = ProbeListener(node, address)
        self._peers = Peers()
        self._collective = Collective(address)
        self._plan: CollectivePlan | None = None
        self._asked = ""
        self._looked_at = float("-inf")  # monotonic
        self.sooner = threading.Event()
        self.latest = SelfCheck(at=time.time(), port=self._listener.port, meeting_port=self._collective.port)

    def start(self) -> None:
        self._listener.start()

    def stop(self) -> None:
        self._listener.stop()
        self._peers.stop()
        self._collective.stop()
        self.sooner.set()

    def take(self, request: ProbeRequest) -> None:
        """Remember to which nodes connections are tried. What somebody waits for is begun at once."""
        self._peers.set(request.peers)
        self._plan, self._asked = request.collective, request.id
        if self._is_asked() or self._peers.is_due():
            self.sooner.set()

    def step(self) -> None:
        """Look at what is due. Raises redis.RedisError, and then looks again next time."""
        asked, plan, is_asked = self._asked, self._plan, self._is_asked()
        found = self.latest
        if is_asked or time.monotonic() - self._looked_at >= LOOK_EVERY_S:
            found = self._look()
            self._looked_at = time.monotonic()
        self._peers.try_all(only_due=not is_asked)
        self.latest = replace(found, at=time.time(), peers=self._peers.results())
        if is_asked:
            collective = None if plan is None else self._collective.run(plan)
            self.latest = replace(self.latest, at=time.time(), collective=collective, answers=asked)

    def _is_asked(self) -> bool:
        return self._asked not in ("", self.latest.answers)

    def _look(self) -> SelfCheck:
        return replace(
            self.latest,
            home=check_folder(self._home),
            checkpoints=check_folder(self._checkpoints),
            clock_ahead_s=self._clock_ahead_s(),
            gpus=self._gpus(),
        )

    def _clock_ahead_s(self) -> float | None:
        # Suppressed: the Valkey user is of a server that let no node ask for the time.
        with contextlib.suppress(redis.ResponseError):
            return round(clock_ahead_s(self._client), 4)
        return None


# Difference between this machine's clock and Valkey's, which all machines of a Trainyard can ask.


def clock_ahead_s(client: redis.Redis, now: Callable[[], float] = time.time) -> float:
    """Return by how much this clock is ahead, to within half of the quickest answer's time. Raises
    redis.RedisError."""
    found = []
    for _ in range(TRIES):
        before = now()
        began = time.monotonic()
        seconds, micros = client.time()
        took_s = time.monotonic() - began
        found.append((took_s, before + took_s / 2 - (seconds + micros / 1e6)))
    return min(found)[1]


# This node's part of a short collective over nodes: a process of low priority, and what came of it.


class Collective:
    """One at a time. ``port`` is kept free for the nodes to meet at, as a supervisor keeps its master port."""

    def __init__(self, address: str, *, module: str = MODULE, limit_s: float = LIMIT_S) -> None:
        self._address, self._module, self._limit_s = address, module, limit_s
        self._reserved = reserve_port(address)
        self.port: int = self._reserved.getsockname()[1]
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._is_over = False

    def stop(self) -> None:
        with self._lock:
            self._is_over = True
            if self._child is not None:
                self._child.kill()
        self._reserved.close()

    def run(self, plan: CollectivePlan) -> CollectiveResult:
        with self._lock:
            if self._is_over:
                return CollectiveResult(problem="the node is being stopped")
            self._child = child = self._start(plan)
        try:
            output, errors = child.communicate(timeout=self._limit_s)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            return CollectiveResult(problem=f"it was not over within {self._limit_s:g} s")
        finally:
            self._child = None
        if child.returncode == 0:
            with contextlib.suppress(BadDocument, IndexError):
                return decode(output.splitlines()[-1], CollectiveResult)
        return CollectiveResult(problem=_last_words(errors) or f"its process ended with {child.returncode}")

    def _start(self, plan: CollectivePlan) -> subprocess.Popen[bytes]:
        environment = {**passed_variables(os.environ), "PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(ROOT)}
        environment |= {
            "RANK": str(plan.rank),
            "WORLD_SIZE": str(plan.world_size),
            "MASTER_ADDR": plan.address,
            "MASTER_PORT": str(plan.port),
            "OMP_NUM_THREADS": "1",
        }
        if (interface := interface_of(self._address)) is not None:
            environment |= {"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": interface}
        command = ["nice", "-n", "10", sys.executable, "-P", "-m", self._module]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _last_words(errors: bytes) -> str:
    lines = [line.strip() for line in errors.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][:MAX_PROBLEM].rstrip(".") if lines else ""


def check_folder(path: Path) -> FolderState:
    """Return whether files can be written into ``path``, by writing one, and how much room there is. A folder that is
    not there yet is judged by the nearest one above it, in which it would be made."""
    state = FolderState(path=str(path))
    there = path
    while not _exists(there) and there != there.parent:
        there = there.parent
    try:
        if not there.is_dir():
            state.problem = "is a file, not a folder" if there == path else f"cannot be made: {there} is a file"
            return state
        usage = shutil.disk_usage(there)
        state.free_bytes, state.total_bytes = usage.free, usage.total
        probe = there / f".trainyard-preflight.{secrets.token_hex(6)}"  # two orders may look at once
        try:
            with create_plain(probe) as file:
                file.write(bytes(PROBE_BYTES))
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        state.problem = f"takes no files: {(error.strerror or str(error)).lower()}"
    return state


def _exists(path: Path) -> bool:
    """Return whether there is anything, also where what is above ``path`` is a file."""
    try:
        return path.exists()
    except OSError:
        return True
