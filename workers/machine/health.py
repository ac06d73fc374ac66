"""Health of the machine now: psutil for the machine, its driver for its GPUs."""

import os
import time
from pathlib import Path

import psutil

from trainyard.contract.machines import Health
from workers.machine.gpus import own_gpus


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
