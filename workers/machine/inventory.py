"""Inventory of the machine, as the node's page shows it, and its health now: psutil, and the drivers of its GPUs."""

import os
import platform
import socket
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from trainyard.contract.machines import Cpu, Health, Inventory
from workers.machine.gpus import maker, own_gpus, torch_version

CORES = "TRAINYARD_CORES"  # this node's share of the cores, set by whoever starts several nodes on one machine


def take_inventory(home: Path, slots: int | None = None, labels: Mapping[str, str] | None = None) -> Inventory:
    """Return what the machine is made of, and how many ``slots`` and which labels the node was started with."""
    gpus = [gpu.described() for gpu in own_gpus()]
    return Inventory(
        hostname=socket.gethostname(),
        platform=platform.platform(),
        python=platform.python_version(),
        torch=torch_version(),
        cpu=Cpu(model=_cpu_model(), count=num_cpus(), machine_count=num_usable_cpus()),
        memory_bytes=psutil.virtual_memory().total,
        disk_bytes=psutil.disk_usage(str(home)).total,
        slots=slots,
        gpus=gpus,
        driver=maker().driver() if gpus else None,
        labels=dict(labels or {}),
    )


def num_cpus() -> int:
    """Return how many cores this node may use: a share, a container or taskset makes them fewer than there are."""
    usable, share = num_usable_cpus(), os.environ.get(CORES, "")
    return min(usable, int(share)) if share.isdecimal() and int(share) else usable


def num_usable_cpus() -> int:
    """Return how many cores the nodes of this machine may use together."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    named = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return named[0] if named else platform.machine()


class HealthReader:
    """Samples the machine. Rates and percentages are about the time since the sample before."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._gpus = own_gpus()
        self._at = time.monotonic()
        self._network = _network_bytes()
        psutil.cpu_percent()

    def sample(self) -> Health:
        memory = psutil.virtual_memory()
        disk = psutil.disk_usage(str(self._home))
        received, sent = self._network_rates()
        return Health(
            cpu_percent=psutil.cpu_percent(),
            load=os.getloadavg()[0],
            memory_bytes=memory.total,
            memory_used_bytes=memory.total - memory.available,
            disk_bytes=disk.total,
            disk_used_bytes=disk.used,
            network_received_bytes_per_s=received,
            network_sent_bytes_per_s=sent,
            gpus=[gpu.health() for gpu in self._gpus],
        )

    def _network_rates(self) -> tuple[float, float]:
        before, self._network = self._network, _network_bytes()
        then, self._at = self._at, time.monotonic()
        elapsed = max(self._at - then, 1e-3)
        received, sent = (max(0.0, (new - old) / elapsed) for new, old in zip(self._network, before, strict=True))
        return received, sent


def _network_bytes() -> tuple[int, int]:
    """Return what all interfaces but loopback have received and sent."""
    counters = psutil.net_io_counters(pernic=True)
    outer = [count for name, count in counters.items() if not name.startswith("lo")]
    return sum(count.bytes_recv for count in outer), sum(count.bytes_sent for count in outer)
