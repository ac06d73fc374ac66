"""Speeds at which nodes compute and exchange: measured by a run of the communication benchmark, else assumed.

The measured rates are the ceilings of a roofline (Williams et al. 2009): of products by their size, and of memory.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from trainyard.contract.base import JsonObject, prepared
from trainyard.spec.strategies.costs.sections import PRODUCTS

VERSION = 2  # of attention on a CPU, the sizes are those of a head of a row
Positive = Annotated[float, Meta(gt=0, le=1e300)]
NotNegative = Annotated[float, Meta(ge=0, le=1e300)]
# (size, size a second), in rising order of sizes
Curve = Annotated[tuple[tuple[Positive, Positive], ...], Meta(min_length=1)]


class Link(msgspec.Struct, frozen=True):
    """Time of a collective over ``ranks`` ranks: ``latency_s`` and a payload over ``bytes_per_s``."""

    ranks: Annotated[int, Meta(ge=2)]
    latency_s: NotNegative
    bytes_per_s: Positive


class Rates(msgspec.Struct, frozen=True):
    """``matmul``: (FLOPs of one product, FLOP/s); ``links`` are by operation as the benchmark calls them;
    ``peak_flops`` by precision is what a device can do at best, and what MFU is a share of.

    ``kinds`` are further curves by name: ``attention`` and ``convolution`` over FLOPs (attention on a CPU over those
    of a head of a row), other kinds over bytes, and ``matmul/bf16`` and the like for another precision. What is not
    there is taken from ``matmul`` or ``memory_bytes_per_s``. ``operator_s`` is what calling an operator costs beside
    its work. The document may have more fields, of older and newer measurements.
    """

    matmul: Curve
    memory_bytes_per_s: Positive
    operator_s: Positive
    base_memory_bytes: Positive  # that a rank holds before its model
    links: dict[str, Link] = {}
    peak_flops: dict[str, Positive] = {}
    is_measured: bool = False
    kinds: dict[str, Curve] = {}
    shared_memory_bytes: NotNegative = 0.0  # of pages shared with the process that ranks are forked from
    sharers: Positive = 1.0  # how many share one of them, in the mean, where it was measured
    forked: NotNegative = 0.0  # of those, the ranks; 0: all but one
    crowding: Positive = 1.0  # ranks for each core, or what else wanted it, while this was measured
    model_s: NotNegative = 0.0  # of a pass through a small GPT at the time; 0: not measured
    version: int = VERSION

    def __post_init__(self) -> None:
        for curve in (self.matmul, *self.kinds.values()):
            if any(left[0] >= right[0] for left, right in itertools.pairwise(curve)):
                raise ValueError("a curve must be in rising order of sizes")

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
        if kind not in PRODUCTS:
            return self.memory_bytes_per_s
        whole, small = self.peak_flops.get("fp32"), self.peak_flops.get(precision)
        return interpolated(self.matmul, size) * (small / whole if whole and small else 1.0)

    def as_document(self) -> JsonObject:
        """Return it as JSON, as a run records it."""
        document: JsonObject = msgspec.to_builtins(self)
        return document

    @classmethod
    def from_document(cls, document: object) -> Rates:
        """Return what ``as_document`` gave. Raises ValueError, naming the field, for anything else."""
        if isinstance(document, Mapping) and document.get("version") != VERSION:
            raise ValueError(f"version is {document.get('version')!r:.20}; this planner reads {VERSION}")
        try:
            return msgspec.convert(document, prepared(cls))
        except msgspec.ValidationError as error:
            raise ValueError(f"these are no rates: {error}") from None


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
