"""AMD's GPUs by the files of their kernel driver, amdgpu: what they are, how they are now, and their memory errors.

Source of the names and units: the kernel's documentation of amdgpu ("Misc AMDGPU driver information", "GPU
Power/Thermal Controls and Monitoring", "AMDGPU RAS Support"). HIP counts GPUs in the order of their addresses on PCI.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from trainyard.contract.machines import Gpu, GpuFaults, GpuHealth

SYSTEM = Path("/sys")
VENDOR = "0x1002"
TORCH = "rocm"  # without it no rank uses them: many a laptop has one for its display


class AmdGpu(NamedTuple):
    number: int
    folder: Path  # of its device

    def described(self) -> Gpu:
        chip, own = self._text("device"), self._text("unique_id")
        name = self._text("product_name") or f"AMD GPU {chip}"  # only some servers' cards have a name
        return Gpu(
            index=self.number,
            name=name,
            uuid=f"GPU-{own}" if own else None,  # as HIP writes it
            memory_bytes=self._number("mem_info_vram_total"),
        )

    def health(self) -> GpuHealth:
        power = self._number("hwmon/hwmon*/power1_average") or self._number("hwmon/hwmon*/power1_input")
        temperature = self._number("hwmon/hwmon*/temp1_input")
        return GpuHealth(
            index=self.number,
            utilization_percent=self._number("gpu_busy_percent"),
            memory_bytes=self._number("mem_info_vram_total"),
            memory_used_bytes=self._number("mem_info_vram_used"),
            temperature_c=None if temperature is None else temperature / 1000,
            power_w=None if power is None else power / 1e6,
        )

    def faults(self) -> GpuFaults:
        errors = re.search(r"ue: (\d+)", self._text("ras/umc_err_count"))
        return GpuFaults(index=self.number, ecc_errors=int(errors[1]) if errors else None)

    def _text(self, pattern: str) -> str:
        """Return what a file says; nothing where this card, or its driver, has none."""
        for path in self.folder.glob(pattern):
            try:
                return path.read_text().strip()
            except OSError:  # a sensor that sleeps
                continue
        return ""

    def _number(self, pattern: str) -> int | None:
        text = self._text(pattern)
        return int(text) if text.isdecimal() else None


def fault_reader(gpus: Sequence[AmdGpu]) -> Callable[[], list[GpuFaults]]:
    return lambda: [gpu.faults() for gpu in gpus]


def count() -> int:
    return len(_all())


def find(name: str, place: int) -> AmdGpu | None:
    """Return the GPU with this index or UUID."""
    return next((gpu for gpu in _all() if name in (str(gpu.number), gpu.described().uuid)), None)


def driver() -> str | None:
    """Return the version of a driver that did not come with the kernel."""
    path = SYSTEM / "module/amdgpu/version"
    return path.read_text().strip() if path.exists() else None


def _all() -> list[AmdGpu]:
    found = {path.resolve() for path in (SYSTEM / "class/drm").glob("card*/device") if _is_ours(path)}
    return [AmdGpu(number, folder) for number, folder in enumerate(sorted(found, key=lambda folder: folder.name))]


def _is_ours(path: Path) -> bool:
    """Connectors of a card name the same device; displays without memory of their own are no accelerators."""
    vendor = path / "vendor"
    return vendor.exists() and vendor.read_text().strip() == VENDOR and (path / "mem_info_vram_total").exists()
