"""GPUs of the machine that are this node's: those that CUDA_VISIBLE_DEVICES names, as for any program; and their
faults.

Several nodes on one machine are given disjoint lists. A slot of the node is a place in that list.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pynvml

from trainyard.contract.machines import GpuFaults

# Reasons for a lower clock that are a fault of the machine, and no wish of anybody.
SLOWED = {
    "nvmlClocksThrottleReasonHwSlowdown": "hardware slowdown",
    "nvmlClocksThrottleReasonHwThermalSlowdown": "heat",
    "nvmlClocksThrottleReasonSwThermalSlowdown": "heat",
    "nvmlClocksThrottleReasonHwPowerBrakeSlowdown": "power brake",
}
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


# Faults of this node's GPUs by NVML: memory errors, Xids, and why a clock is low.


class GpuFaultReader:
    """Reads them; without a driver there is nothing to read."""

    def __init__(self) -> None:
        self._handles = own_gpus()
        self._xids: dict[int, int] = {}  # the last one by GPU
        self._events: Any = None
        if not self._handles:
            return
        with contextlib.suppress(pynvml.NVMLError):  # Xids need rights that a container may lack
            self._events = pynvml.nvmlEventSetCreate()
            for _, handle in self._handles:
                pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, self._events)

    def read(self) -> list[GpuFaults]:
        self._take_xids()
        return [
            GpuFaults(index=index, ecc_errors=_ecc_errors(handle), xid=self._xids.get(index), slowed_by=_slowed(handle))
            for index, handle in self._handles
        ]

    def _take_xids(self) -> None:
        if self._events is None:
            return
        by_uuid = {pynvml.nvmlDeviceGetUUID(handle): index for index, handle in self._handles}
        with contextlib.suppress(pynvml.NVMLError):  # a time-out: there is no further one
            while True:
                event = pynvml.nvmlEventSetWait_v2(self._events, 0)
                index = by_uuid.get(pynvml.nvmlDeviceGetUUID(event.device))
                if index is not None:
                    self._xids[index] = int(event.eventData)


def _ecc_errors(handle: Any) -> int | None:
    with contextlib.suppress(pynvml.NVMLError):  # a GPU without ECC
        kind, counter = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
        return int(pynvml.nvmlDeviceGetTotalEccErrors(handle, kind, counter))
    return None


def _slowed(handle: Any) -> list[str]:
    with contextlib.suppress(pynvml.NVMLError):
        reasons = int(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        return list(dict.fromkeys(words for name, words in SLOWED.items() if reasons & int(getattr(pynvml, name, 0))))
    return []
