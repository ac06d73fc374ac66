"""Inventory of the machine, as the node's page shows it."""

import os
import platform
import socket
from pathlib import Path

import psutil

from trainyard.contract.machines import Cpu, Inventory
from workers.machine.gpus import maker, own_gpus, torch_version

CORES = "TRAINYARD_CORES"  # this node's share of the cores, set by whoever starts several nodes on one machine


def take_inventory(home: Path, slots: int | None = None) -> Inventory:
    """Return what the machine is made of, and how many ``slots`` the node was started with, if named."""
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
