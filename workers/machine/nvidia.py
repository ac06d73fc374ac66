"""NVIDIA's GPUs by NVML: what they are, how they are now, and their faults."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pynvml

from trainyard.contract.machines import Gpu, GpuFaults, GpuHealth

TORCH = ""
# Reasons for a lower clock that are a fault of the machine, and no wish of anybody.
SLOWED = {
    "nvmlClocksThrottleReasonHwSlowdown": "hardware slowdown",
    "nvmlClocksThrottleReasonHwThermalSlowdown": "heat",
    "nvmlClocksThrottleReasonSwThermalSlowdown": "heat",
    "nvmlClocksThrottleReasonHwPowerBrakeSlowdown": "power brake",
}


class NvidiaGpu(NamedTuple):
    number: int
    handle: Any  # NVML's

    def described(self) -> Gpu:
        return Gpu(
            index=self.number,
            name=pynvml.nvmlDeviceGetName(self.handle),
            uuid=pynvml.nvmlDeviceGetUUID(self.handle),
            memory_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(self.handle).total),
        )

    def health(self) -> GpuHealth:
        memory = _query(pynvml.nvmlDeviceGetMemoryInfo, self.handle)
        utilization = _query(pynvml.nvmlDeviceGetUtilizationRates, self.handle)
        power = _query(pynvml.nvmlDeviceGetPowerUsage, self.handle)
        return GpuHealth(
            index=self.number,
            utilization_percent=None if utilization is None else utilization.gpu,
            memory_bytes=None if memory is None else memory.total,
            memory_used_bytes=None if memory is None else memory.used,
            temperature_c=_query(pynvml.nvmlDeviceGetTemperature, self.handle, pynvml.NVML_TEMPERATURE_GPU),
            power_w=None if power is None else power / 1000,
        )


class NvidiaFaults:
    """Memory errors, Xids, and why a clock is low."""

    def __init__(self, gpus: Sequence[NvidiaGpu]) -> None:
        self._gpus = gpus
        self._xids: dict[int, int] = {}  # the last one by GPU
        self._events: Any = None
        with contextlib.suppress(pynvml.NVMLError):  # Xids need rights that a container may lack
            self._events = pynvml.nvmlEventSetCreate()
            for gpu in gpus:
                pynvml.nvmlDeviceRegisterEvents(gpu.handle, pynvml.nvmlEventTypeXidCriticalError, self._events)

    def read(self) -> list[GpuFaults]:
        self._take_xids()
        kind, counter = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
        return [
            GpuFaults(
                index=gpu.number,
                ecc_errors=_query(pynvml.nvmlDeviceGetTotalEccErrors, gpu.handle, kind, counter),
                xid=self._xids.get(gpu.number),
                slowed_by=_slowed(gpu.handle),
            )
            for gpu in self._gpus
        ]

    def _take_xids(self) -> None:
        if self._events is None:
            return
        by_uuid = {pynvml.nvmlDeviceGetUUID(gpu.handle): gpu.number for gpu in self._gpus}
        with contextlib.suppress(pynvml.NVMLError):  # a time-out: there is no further one
            while True:
                event = pynvml.nvmlEventSetWait_v2(self._events, 0)
                index = by_uuid.get(pynvml.nvmlDeviceGetUUID(event.device))
                if index is not None:
                    self._xids[index] = int(event.eventData)


def fault_reader(gpus: Sequence[NvidiaGpu]) -> Callable[[], list[GpuFaults]]:
    return NvidiaFaults(gpus).read


def count() -> int:
    """Return how many the machine has, 0 without a driver. NVML stays open for their handles."""
    try:
        pynvml.nvmlInit()
        return int(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError:
        return 0


def find(name: str, place: int) -> NvidiaGpu | None:
    """Return the GPU with this index or UUID, or a slice of one, which has no index: then ``place`` is its number."""
    with contextlib.suppress(pynvml.NVMLError):
        if name.isdecimal():
            return NvidiaGpu(int(name), pynvml.nvmlDeviceGetHandleByIndex(int(name)))
        handle = pynvml.nvmlDeviceGetHandleByUUID(name)
        index = _query(pynvml.nvmlDeviceGetIndex, handle)
        return NvidiaGpu(place if index is None else int(index), handle)
    return None


def driver() -> str:
    return str(pynvml.nvmlSystemGetDriverVersion())


def _slowed(handle: Any) -> list[str]:
    reasons = _query(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle) or 0
    return list(dict.fromkeys(words for name, words in SLOWED.items() if reasons & int(getattr(pynvml, name, 0))))


def _query(query: Callable[..., Any], *arguments: Any) -> Any:
    """Return NVML's answer, None where this GPU has none (a MIG slice knows no utilisation)."""
    with contextlib.suppress(pynvml.NVMLError):
        return query(*arguments)
    return None
