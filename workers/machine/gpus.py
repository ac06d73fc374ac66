"""GPUs of the machine that are this node's: those that CUDA_VISIBLE_DEVICES names, as for any program.

Several nodes on one machine are given disjoint lists. A slot of the node is a place in that list.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pynvml

VISIBLE = "CUDA_VISIBLE_DEVICES"


class OwnGpu(NamedTuple):
    number: int  # among the machine's
    handle: Any  # NVML's


def own_gpus() -> list[OwnGpu]:
    """Return this node's GPUs in the order of its slots; none without a driver. NVML stays open for their handles."""
    try:
        pynvml.nvmlInit()
        return list(_found(pynvml.nvmlDeviceGetCount()))
    except pynvml.NVMLError:
        return []


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


def _found(count: int) -> Iterator[OwnGpu]:
    """Yield the GPUs that are named. As CUDA does, stop at the first name that is none's."""
    names = visible_names()
    with contextlib.suppress(pynvml.NVMLError):
        for place, name in enumerate(map(str, range(count)) if names is None else names):
            if name.isdecimal():
                yield OwnGpu(int(name), pynvml.nvmlDeviceGetHandleByIndex(int(name)))
            else:  # as schedulers name a GPU, or a slice of one
                handle = pynvml.nvmlDeviceGetHandleByUUID(name)
                yield OwnGpu(_index_of(handle, place), handle)


def _index_of(handle: Any, otherwise: int) -> int:
    with contextlib.suppress(pynvml.NVMLError):  # a slice has none
        return int(pynvml.nvmlDeviceGetIndex(handle))
    return otherwise
