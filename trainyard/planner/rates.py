"""How fast nodes compute and exchange: measured by a run of the communication benchmark, else assumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Link:
    """Time of a collective over ``ranks`` ranks: ``latency_s`` and a payload over ``bytes_per_s``."""

    ranks: int
    latency_s: float
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Rates:
    """``matmul``: (FLOPs of one product, FLOP/s) in rising order; ``links`` are by operation as the benchmark calls
    them; ``peak_flops`` by precision is what a device can do at best, and what MFU is a share of."""

    matmul: tuple[tuple[float, float], ...]
    memory_bytes_per_s: float
    operator_s: float
    base_memory_bytes: float
    links: Mapping[str, Link] = field(default_factory=dict)
    peak_flops: Mapping[str, float] = field(default_factory=dict)
    is_measured: bool = False
