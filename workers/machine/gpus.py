"""GPUs of the machine that are this node's: those that CUDA_VISIBLE_DEVICES names, as for any program.

Several nodes on one machine are given disjoint lists. A slot of the node is a place in that list. AMD's programs read
the same variable (ROCm's documentation of HIP's environment variables: "for portability across different vendors").
"""

import os
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from types import ModuleType
from typing import Protocol

from trainyard.contract.machines import Gpu, GpuFaults, GpuHealth
from workers.machine import amd, nvidia

VISIBLE = "CUDA_VISIBLE_DEVICES"
# Makers, each a module with ``count``, ``find``, ``driver``, ``fault_reader`` and TORCH, a part of the version of a
# torch for its GPUs. A machine has GPUs of one.
MAKERS: tuple[ModuleType, ...] = (nvidia, amd)
FaultReader = Callable[[], list[GpuFaults]]


class OwnGpu(Protocol):
    """A GPU, whoever made it. What its driver does not say is None."""

    @property
    def number(self) -> int:
        """Its place among the machine's."""

    def described(self) -> Gpu: ...

    def health(self) -> GpuHealth: ...


def maker() -> ModuleType:
    """Return whose GPUs this node has, for the torch that is installed; NVIDIA where it has none."""
    torch = torch_version() or ""
    return next((one for one in MAKERS if one.TORCH in torch and one.count()), nvidia)


def torch_version() -> str | None:
    """Return the installed version without importing torch."""
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return None


def own_gpus() -> list[OwnGpu]:
    """Return this node's GPUs in the order of its slots; none without a driver."""
    return list(_found(maker()))


def gpus_of(slots: Sequence[int]) -> list[OwnGpu]:
    """Return the GPUs of ``slots``, those that are there."""
    own = own_gpus() if slots else []
    return [own[slot] for slot in slots if slot < len(own)]


def devices_of(slots: Sequence[int]) -> str:
    """Return CUDA_VISIBLE_DEVICES for ranks that hold ``slots``."""
    names = visible_names()
    return ",".join(str(slot) if names is None else names[slot] for slot in slots)


def visible_names() -> list[str] | None:
    """Return the indexes and UUIDs that CUDA_VISIBLE_DEVICES has; None without it, where all GPUs are the node's."""
    given = os.environ.get(VISIBLE)
    return None if given is None else [name.strip() for name in given.split(",")]


def _found(made_by: ModuleType) -> Iterator[OwnGpu]:
    """Yield the GPUs that are named. As CUDA does, stop at the first name that is none's."""
    names = visible_names()
    for place, name in enumerate(map(str, range(made_by.count())) if names is None else names):
        gpu = made_by.find(name, place)
        if gpu is None:
            return
        yield gpu


def fault_reader() -> FaultReader:
    """Return what reads the faults of this node's GPUs; without a driver there is nothing to read."""
    gpus = own_gpus()
    read: FaultReader = maker().fault_reader(gpus) if gpus else list
    return read
