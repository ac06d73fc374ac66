"""This node's part of a short collective over nodes: a process of low priority, and what came of it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path

from trainyard.contract.base import BadDocument, WireStruct, decode
from trainyard.contract.desired import CollectivePlan
from trainyard.contract.machines import CollectiveResult
from workers.machine.passed_variables import passed_variables
from workers.supervisor.ranks.launch import interface_of, reserve_port

MODULE = "workers.training.communication.probe"
ROOT = Path(__file__).resolve().parents[3]
LIMIT_S = 60.0  # with the import of torch
MAX_PROBLEM = 300


class _Printed(WireStruct):
    latency_s: float
    bytes_per_s: float
    world_size: int


class Collective:
    """One at a time. ``port`` is kept free for the nodes to meet at, as a supervisor keeps its master port."""

    def __init__(self, address: str, *, module: str = MODULE, limit_s: float = LIMIT_S) -> None:
        self._address = address
        self._module = module
        self._limit_s = limit_s
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
        """Take part, and return what it took or why it failed."""
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
                found = decode(output.splitlines()[-1], _Printed)
                return CollectiveResult(
                    latency_s=found.latency_s, bytes_per_s=found.bytes_per_s, world_size=found.world_size
                )
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
        command = ["nice", "-n", "10", sys.executable, "-m", self._module]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _last_words(errors: bytes) -> str:
    lines = [line.strip() for line in errors.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][:MAX_PROBLEM].rstrip(".") if lines else ""
