"""What a node's machine is made of, and how it feels."""

from __future__ import annotations

from typing import Annotated

import msgspec

from trainyard.contract.base import Name, Seconds, Whole, WireStruct


class Gpu(WireStruct):
    index: Whole | None = None
    name: Name | None = None
    uuid: Name | None = None
    memory_bytes: Whole | None = None


class Cpu(WireStruct):
    model: Name | None = None
    count: Whole | None = None  # the node's share of the cores
    machine_count: Whole | None = None  # cores that the nodes of this machine may use together


class Inventory(WireStruct):
    """What the machine is made of. None where the node does not know."""

    hostname: Name | None = None
    platform: Name | None = None
    python: Name | None = None  # version
    torch: Name | None = None  # version, None without it
    cpu: Cpu | None = None
    memory_bytes: Whole | None = None
    disk_bytes: Whole | None = None
    slots: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)] | None = None  # that the node was started with, if named
    gpus: list[Gpu] | None = None
    driver: Name | None = None  # version of NVIDIA's
    isolation: Name | None = None  # level of what keeps scripts from the node's files


class GpuHealth(WireStruct):
    index: Whole | None = None
    utilization_percent: float | None = None
    memory_bytes: Whole | None = None
    memory_used_bytes: Whole | None = None
    temperature_c: float | None = None
    power_w: float | None = None


class Health(WireStruct):
    """How the machine is now. Rates and percentages are about the time since the sample before."""

    cpu_percent: float | None = None
    load: float | None = None  # of one minute
    memory_bytes: Whole | None = None
    memory_used_bytes: Whole | None = None
    disk_bytes: Whole | None = None
    disk_used_bytes: Whole | None = None
    network_received_bytes_per_s: float | None = None
    network_sent_bytes_per_s: float | None = None
    gpus: list[GpuHealth] | None = None


class HealthSample(Health, kw_only=True):
    """A sample on its way through the stream."""

    at: Seconds
