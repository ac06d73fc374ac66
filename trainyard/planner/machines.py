"""The nodes of a plan: how fast they compute and exchange, what is known of them, and where ranks are placed.

Speeds are measured by a run of the communication benchmark, else assumed. The measured rates are the ceilings of a
roofline (Williams et al. 2009): of products by their size, and of memory.
"""

import itertools
import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from trainyard.contract.base import JsonObject, prepared
from trainyard.spec.strategies.costs import PRODUCTS

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
    def from_document(cls, document: object) -> "Rates":
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
    place = bisect_left([point[0] for point in curve], size)
    if place == 0 or place == len(curve):
        return curve[min(place, len(curve) - 1)][1]
    (left, low), (right, high) = curve[place - 1], curve[place]
    share = math.log(size / left) / math.log(right / left)
    return math.exp(math.log(low) + share * math.log(high / low))


# Rates for nodes that nobody has measured: what such machines are known to do, on the slow side.
#
# Peaks are the makers' data sheets (dense, without sparsity); a product of matrices reaches about two thirds of them,
# and less where it is small.

MIB = 2.0**20


class Device(NamedTuple):
    """Peaks in TFLOP/s and memory in GB/s. Products of fp32 matrices run on the cores that take float32: TF32 would
    have to be enabled."""

    fp32: float
    small: float  # bf16 and fp16
    memory: float
    has_bf16: bool = True


# By words of the device's name, the longer ones first; without sparsity, as NVIDIA's data sheets have them.
GPUS = {
    "H200 NVL": Device(60, 835, 4800), "H200": Device(67, 989, 4800), "GH200": Device(67, 989, 4000),
    "GB200": Device(80, 2500, 8000), "H100 PCIE": Device(51, 756, 2000), "H100 NVL": Device(60, 835, 3900),
    "H100": Device(67, 989, 3350), "B200": Device(75, 2250, 8000), "A100": Device(19.5, 312, 1555),
    "L40S": Device(91.6, 362, 864), "L40": Device(90.5, 181, 864), "L4": Device(30.3, 121, 300),
    "A40": Device(37.4, 149.7, 696), "A10": Device(31.2, 125, 600), "A10G": Device(35, 70, 600),
    "V100": Device(15.7, 125, 900, has_bf16=False),
    "T4": Device(8.1, 65, 300, has_bf16=False), "4090": Device(82.6, 165, 1008), "3090": Device(35.6, 71, 936),
}  # fmt: skip
UNKNOWN_GPU = Device(15, 60, 500)
# Half of what a core of a server of 2023 was measured to do, by kind of operator.
CPU_KINDS: dict[str, Curve] = {
    "attention": ((3e4, 5e9), (2e6, 2e10), (8e6, 2.5e10), (7e7, 3e10)),
    "convolution": ((1e6, 1e10), (2e7, 5e10), (6e8, 9e10)),
    "norm": ((1e6, 5e9),),
    "group-norm": ((1.6e4, 1e9), (3e5, 5e9), (2e6, 8e9)),
    "softmax": ((1e6, 5e9),),
    "optimizer": ((1e7, 2e10),),
}
CPU_LINKS = {
    "all-reduce": Link(2, 2e-4, 6e8),
    "all-gather": Link(2, 2e-4, 1e9),
    "reduce-scatter": Link(2, 2e-4, 8e8),
    "send-receive": Link(2, 1e-4, 1e9),
}
GPU_LINKS = {
    "all-reduce": Link(2, 3e-5, 1e10),
    "all-gather": Link(2, 3e-5, 1.5e10),
    "reduce-scatter": Link(2, 3e-5, 1.5e10),
    "send-receive": Link(2, 2e-5, 1.5e10),
}


def gpu_of(name: str) -> Device | None:
    """Return what is known of the GPU; None for one that is in no table. An A4000 is no A40, nor is a laptop's 4090 a
    4090."""
    likes = ((rf"\b{words}\b(?! TI\b| D\b| LAPTOP)", device) for words, device in GPUS.items())
    return next((device for like, device in likes if re.search(like, name.upper())), None)


def default_rates(accelerator: str, device: str = "") -> Rates:
    """Return what is assumed of ``cpu`` (one core a rank) or ``gpu`` nodes; ``device`` is the GPU's name."""
    if accelerator != "gpu":
        return Rates(
            matmul=((5e5, 2e10), (3e7, 4e10), (1e9, 5e10)),
            memory_bytes_per_s=1e10,
            operator_s=3e-6,
            base_memory_bytes=110 * MIB,
            links=CPU_LINKS,
            peak_flops={"fp32": 5e10, "bf16": 5e10, "fp16": 2.5e10},
            kinds=CPU_KINDS,
        )
    found = gpu_of(device) or UNKNOWN_GPU
    return Rates(
        matmul=tuple((size, share * found.fp32 * 1e12) for size, share in ((1e8, 0.05), (1e10, 0.5), (1e11, 0.7))),
        memory_bytes_per_s=0.7 * found.memory * 1e9,
        operator_s=8e-6,
        base_memory_bytes=64 * MIB,
        links=GPU_LINKS,
        peak_flops={"fp32": found.fp32 * 1e12, "bf16": found.small * 1e12, "fp16": found.small * 1e12},
        kinds={"matmul/bf16": _gpu_curve(found.small * 1e12), "matmul/fp16": _gpu_curve(found.small * 1e12)},
    )


def _gpu_curve(peak: float) -> Curve:
    return (1e8, 0.05 * peak), (1e10, 0.4 * peak), (1e12, 0.65 * peak)


# Facts about nodes and data that the planner gets, and the machines of the ranks.


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node, or as many alike as there will be. ``memory_bytes`` is the machine's, ``device_memory_bytes`` that of
    each GPU (None on a CPU node); nodes with the same ``host`` share one machine, its memory and its cores."""

    name: str
    slots: int
    accelerator: str  # cpu or gpu
    cores: int
    memory_bytes: int
    device_memory_bytes: int | None = None
    device: str = ""  # as its maker calls it
    host: str = ""


@dataclass(frozen=True, slots=True)
class DataFacts:
    """Facts about the data before a run; None is unknown, and the planner warns of what it then assumes."""

    num_rows: int | None = None
    num_features: int | None = None  # columns of a table
    num_classes: int | None = None  # 0: a quantity is learnt
    channels: int | None = None
    image_size: int | None = None


# Machines of the ranks: which ranks share one, and what it has for each of them.


@dataclass(frozen=True)  # without slots: what is computed once needs a place
class Places:
    """The node of each rank, in the order of ranks."""

    nodes: tuple[NodeFacts, ...]

    @property
    def is_gpu(self) -> bool:
        return bool(self.nodes) and self.nodes[0].accelerator == "gpu"

    @cached_property
    def limits(self) -> tuple[float, ...]:
        """Return what memory each rank has: a GPU is one rank's own, a machine's is shared by all that are on it."""
        return tuple(
            float(node.device_memory_bytes)
            if node.accelerator == "gpu" and node.device_memory_bytes
            else node.memory_bytes / self._sharing[_host(node)]
            for node in self.nodes
        )

    @property
    def most_forked(self) -> int:
        """Return how many ranks the fullest node has: they are forked from one process, and share pages of it."""
        return max(Counter(node.name for node in self.nodes).values())

    @cached_property
    def crowding(self) -> float:
        """Number of ranks of a machine for each of its cores, at least 1."""
        return 1.0 if self.is_gpu else max(1.0, self._ranks_per_core)

    @cached_property
    def has_spare_cores(self) -> bool:
        """Return whether something is left of each machine to exchange while all its ranks compute."""
        return self.is_gpu or self._ranks_per_core < 1

    def are_apart(self, ranks: Sequence[int]) -> bool:
        """Say whether ``ranks`` are on more than one machine."""
        return len({_host(self.nodes[rank]) for rank in ranks}) > 1

    @cached_property
    def _ranks_per_core(self) -> float:
        return max(self._sharing[_host(node)] / max(1, node.cores) for node in self.nodes)

    @cached_property
    def _sharing(self) -> Counter[str]:
        return Counter(_host(node) for node in self.nodes)


def _host(node: NodeFacts) -> str:
    return node.host or node.name


@lru_cache(maxsize=16)
def place_ranks(nodes: tuple[NodeFacts, ...], num_nodes: int, processes: int) -> Places:
    """Return where ``processes`` ranks on each of ``num_nodes`` stand. Fewer nodes than that stand for more alike.

    Raises ValueError without any.
    """
    if not nodes:
        raise ValueError("there is no node to plan for")
    last = nodes[-1]  # what is like it is another machine, unless it names its host
    more = (replace(last, name=f"{last.name} {index}") for index in range(len(nodes), num_nodes))
    return Places(tuple(node for node in (*nodes[:num_nodes], *more) for _ in range(processes)))
