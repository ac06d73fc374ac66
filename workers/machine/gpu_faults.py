"""Faults of this node's GPUs by NVML: memory errors, Xids, and why a clock is low."""

from __future__ import annotations

import contextlib
from typing import Any

import pynvml

from trainyard.contract.machines import GpuFaults
from workers.machine.gpus import own_gpus

# Reasons for a lower clock that are a fault of the machine, and no wish of anybody.
SLOWED = {
    "nvmlClocksThrottleReasonHwSlowdown": "hardware slowdown",
    "nvmlClocksThrottleReasonHwThermalSlowdown": "heat",
    "nvmlClocksThrottleReasonSwThermalSlowdown": "heat",
    "nvmlClocksThrottleReasonHwPowerBrakeSlowdown": "power brake",
}


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
        return int(
            pynvml.nvmlDeviceGetTotalEccErrors(
                handle, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
            )
        )
    return None


def _slowed(handle: Any) -> list[str]:
    with contextlib.suppress(pynvml.NVMLError):
        reasons = int(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        found = [words for name, words in SLOWED.items() if reasons & int(getattr(pynvml, name, 0))]
        return list(dict.fromkeys(found))
    return []
