"""How fast nodes compute and exchange: measured by a run of the communication benchmark, else assumed."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

VERSION = 2  # of attention on a CPU, the sizes are those of a head of a row
MEMORY_BOUND = frozenset({"move", "norm", "group-norm", "softmax", "optimizer"})
Curve = tuple[tuple[float, float], ...]  # (size, size a second), in rising order of sizes


@dataclass(frozen=True, slots=True)
class Link:
    """Time of a collective over ``ranks`` ranks: ``latency_s`` and a payload over ``bytes_per_s``."""

    ranks: int
    latency_s: float
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Rates:
    """``matmul``: (FLOPs of one product, FLOP/s) in rising order; ``links`` are by operation as the benchmark calls
    them; ``peak_flops`` by precision is what a device can do at best, and what MFU is a share of.

    ``kinds`` are further curves by name: ``attention`` and ``convolution`` over FLOPs (attention on a CPU over those
    of a head of a row), those of MEMORY_BOUND over bytes, and ``matmul/bf16`` and the like for another precision. What
    is not there is taken from ``matmul`` or
    ``memory_bytes_per_s``. ``operator_s`` is what calling an operator costs beside its work.
    """

    matmul: Curve
    memory_bytes_per_s: float
    operator_s: float
    base_memory_bytes: float
    links: Mapping[str, Link] = field(default_factory=dict)
    peak_flops: Mapping[str, float] = field(default_factory=dict)
    is_measured: bool = False
    kinds: Mapping[str, Curve] = field(default_factory=dict)
    shared_memory_bytes: float = 0.0  # of pages that a rank shares with the process it was forked from, and others
    sharers: float = 1.0  # how many share one of them, in the mean, where it was measured
    forked: float = 0.0  # of those, the ranks; 0: all but one
    workspace_bytes: float = 0.0  # that products, exchanges and the first step make for themselves and keep
    heap: float = 1.0  # bytes that the allocator takes for each that is in use: holes between those that stay
    crowding: float = 1.0  # ranks for each core, or what else wanted it, while this was measured
    pace: float = 1.0  # times as long as its operators one by one that a whole step takes
    fault_s: float = 0.0  # until a page of memory that is touched for the first time is there
    alone: float = 1.0  # of the time of a rank with neighbours that one takes which has its machine to itself

    def base_bytes(self, num_ranks: int) -> float:
        """Return what one of ``num_ranks`` forked from one process holds before its model: its part of what they share
        is smaller, the more they are. That process, and what else it forked, are as many as when it was measured."""
        others = max(1.0, self.sharers - self.forked) if self.forked else 1.0
        share = 1 / (num_ranks + others) - 1 / self.sharers
        return max(0.0, self.base_memory_bytes + self.shared_memory_bytes * share)

    def rate(self, kind: str, size: float, precision: str = "fp32") -> float:
        """Return how much of ``kind`` is done in a second where one operator does ``size`` of it."""
        if precision == "fp16" and "fp16" not in self.peak_flops:
            precision = "bf16"  # which is what a calibration times of numbers of 2 bytes
        curve = self.kinds.get(f"{kind}/{precision}") or self.kinds.get(kind)
        if curve is not None:
            return interpolated(curve, size)
        if kind in MEMORY_BOUND:
            return self.memory_bytes_per_s
        return interpolated(self.matmul, size) * (self._speed_up(precision) if precision != "fp32" else 1.0)

    def _speed_up(self, precision: str) -> float:
        """Return how much quicker than fp32 products of ``precision`` are, by the peaks; 1 where nobody knows."""
        whole, small = self.peak_flops.get("fp32"), self.peak_flops.get(precision)
        return small / whole if whole and small else 1.0

    def as_document(self) -> dict[str, Any]:
        """Return it as JSON, as a run notes it."""
        return {"version": VERSION, **asdict(self)}

    @classmethod
    def from_document(cls, document: object) -> Rates:
        """Return what ``as_document`` gave. Raises ValueError, naming the field, for anything else."""
        if not isinstance(document, Mapping):
            raise ValueError(f"rates must be a map, not {document!r:.60}")
        if document.get("version") != VERSION:
            raise ValueError(f"version is {document.get('version')!r:.20}; this planner reads {VERSION}")
        numbers = {name: _positive(name, document.get(name)) for name in NUMBERS}
        links, kinds = _map("links", document.get("links", {})), _map("kinds", document.get("kinds", {}))
        peaks = _map("peak_flops", document.get("peak_flops", {}))
        return cls(
            matmul=_curve("matmul", document.get("matmul")),
            links={name: _link(f"links.{name}", value) for name, value in links.items()},
            peak_flops={name: _positive(f"peak_flops.{name}", value) for name, value in peaks.items()},
            is_measured=document.get("is_measured") is True,
            kinds={name: _curve(f"kinds.{name}", value) for name, value in kinds.items()},
            shared_memory_bytes=_number("shared_memory_bytes", document.get("shared_memory_bytes", 0.0)),
            sharers=_positive("sharers", document.get("sharers", 1.0)),
            forked=_number("forked", document.get("forked", 0.0)),
            workspace_bytes=_number("workspace_bytes", document.get("workspace_bytes", 0.0)),
            heap=_positive("heap", document.get("heap", 1.0)),
            crowding=_positive("crowding", document.get("crowding", 1.0)),
            pace=_positive("pace", document.get("pace", 1.0)),
            fault_s=_number("fault_s", document.get("fault_s", 0.0)),
            alone=_positive("alone", document.get("alone", 1.0)),
            **numbers,
        )


NUMBERS = ("memory_bytes_per_s", "operator_s", "base_memory_bytes")


def interpolated(curve: Curve, size: float) -> float:
    """Return the rate at ``size``: straight lines between the measured ones over the logarithms of both, level
    beyond their ends."""
    sizes = [point[0] for point in curve]
    place = bisect_left(sizes, size)
    if place == 0 or place == len(curve):
        return curve[min(place, len(curve) - 1)][1]
    (left, low), (right, high) = curve[place - 1], curve[place]
    share = math.log(size / left) / math.log(right / left)
    return math.exp(math.log(low) + share * math.log(high / low))


def _number(name: str, value: object) -> float:
    return 0.0 if value == 0 else _positive(name, value)


def _positive(name: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value) or value <= 0:
        raise ValueError(f"{name} must be a number above 0, not {value!r:.60}")
    return float(value)


def _map(name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"{name} must be a map by name, not {value!r:.60}")
    return dict(value)


def _curve(name: str, value: object) -> Curve:
    if not isinstance(value, list | tuple) or not value:
        raise ValueError(f"{name} must be a list of pairs, not {value!r:.60}")
    points = []
    for index, point in enumerate(value):
        if not isinstance(point, list | tuple) or len(point) != 2:
            raise ValueError(f"{name}.{index} must be a pair of size and rate, not {point!r:.60}")
        points.append((_positive(f"{name}.{index}", point[0]), _positive(f"{name}.{index}", point[1])))
    if any(left[0] >= right[0] for left, right in itertools.pairwise(points)):
        raise ValueError(f"{name} must be in rising order of sizes")
    return tuple(points)


def _link(name: str, value: object) -> Link:
    found = _map(name, value)
    ranks = found.get("ranks")
    if not isinstance(ranks, int) or isinstance(ranks, bool) or ranks < 2:
        raise ValueError(f"{name}.ranks must be a whole number from 2, not {ranks!r:.60}")
    return Link(
        ranks=ranks,
        latency_s=_number(f"{name}.latency_s", found.get("latency_s")),
        bytes_per_s=_positive(f"{name}.bytes_per_s", found.get("bytes_per_s")),
    )
