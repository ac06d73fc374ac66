"""What ranks say to each other in a step: bytes by collective, and how long that takes.

A ring of n ranks sends 2 (n - 1) / n of a payload in an all-reduce and half of that in an all-gather or reduce-scatter,
in as many rounds (Patarasuk & Yuan 2009). What was measured over one number of ranks is carried over to another by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trainyard.planner.architectures.tape import SMALL, WHOLE
from trainyard.planner.layout import Layout
from trainyard.planner.machines.rates import Link, Rates
from trainyard.planner.memory import Stage
from trainyard.spec.models import RecipeSpec

BUCKET_BYTES = 25 * 2**20
TURN_S = 1.5e-3  # that a collective waits for a core, where ranks compute on all of them meanwhile…
BUSY_PACE = 1.5  # …and times as long as the quickest tenth of bare ones that it then takes
COPIED_PACE = 2.0  # times as long as a bare one that a collective in the midst of a block takes on a CPU
FALLBACKS = {
    "all-gather": ("all-reduce",),
    "reduce-scatter": ("all-gather", "all-reduce"),
    "send-receive": ("all-gather", "all-reduce"),
    "all-reduce": ("ring", "all-gather"),
}


@dataclass(frozen=True, slots=True)
class Message:
    """``times`` collectives of a step among ``ranks`` ranks, of ``num_bytes`` together. ``is_hidden``: it travels while
    backward computes, where something is free to carry it. ``is_copied``: DTensor's, along another dimension than the
    first, which copies before and after."""

    operation: str
    ranks: int
    num_bytes: float
    times: float
    is_hidden: bool = False
    is_copied: bool = False

    def sent_bytes(self, *, is_gpu: bool) -> float:
        """Return what each rank sends of it. On a CPU gloo reduces the whole of what is to be scattered."""
        operation = "all-reduce" if self.operation == "reduce-scatter" and not is_gpu else self.operation
        return self.num_bytes * share(operation, self.ranks)

    def seconds(self, links: Mapping[str, Link]) -> float:
        link = find_link(links, self.operation)
        if link is None or self.ranks < 2:
            return 0.0
        growth = rounds(self.operation, self.ranks) / rounds(self.operation, link.ranks)
        carried = share(self.operation, self.ranks) / share(self.operation, link.ranks)
        return self.times * link.latency_s * growth + self.num_bytes / link.bytes_per_s * carried


def rounds(operation: str, ranks: int) -> int:
    """Return how often each rank of a ring sends a piece of 1 / ranks; what goes to one other is one piece."""
    if operation == "send-receive":
        return 1
    return (2 if operation in ("all-reduce", "ring") else 1) * max(1, ranks - 1)


def share(operation: str, ranks: int) -> float:
    """Return how much of a payload each rank sends."""
    return 1.0 if operation == "send-receive" else rounds(operation, ranks) / ranks


def find_link(links: Mapping[str, Link], operation: str) -> Link | None:
    for name in (operation, *FALLBACKS.get(operation, ())):
        if name in links:
            return links[name]
    return None


def messages(spec: RecipeSpec, layout: Layout, stage: Stage) -> list[Message]:
    """Return what a rank of ``stage`` exchanges in a step."""
    found = [Message("all-reduce", layout.mesh.world_size, 8.0, 2)]  # the loss, and the norm of the gradients
    if layout.mesh.tensor > 1:
        found += _among_tensor_ranks(layout, stage)
    if layout.mesh.shard > 1:
        found += _among_shards(spec, layout, stage)
    if layout.mesh.stages > 1:
        found += _between_stages(layout, stage)
    if layout.mesh.data > 1:
        found += _among_copies(spec, layout, stage)
    return [message for message in found if message.ranks > 1]


def _among_copies(spec: RecipeSpec, layout: Layout, stage: Stage) -> list[Message]:
    mesh, agreement = layout.mesh, spec.parallel.synchronization
    whole = sum(stage.weights(layout)) / mesh.shard
    if agreement.kind in ("local-sgd", "diloco"):
        return [Message("all-reduce", mesh.data, whole / agreement.every_steps, 1 / agreement.every_steps)]
    if agreement.kind == "parameter-server":  # up and down; rank 0 talks to each of the others
        others = mesh.data - 1
        return [Message("send-receive", mesh.data, whole * others, 2.0 * others)]
    buckets = max(1.0, whole / BUCKET_BYTES) + (1 if whole > 2**20 else 0)  # DDP's first one is small
    if spec.parallel.compression in ("fp16", "bf16"):
        whole /= 2
    elif spec.parallel.compression == "powersgd":
        whole, buckets = _factors(stage), 2 * buckets
    is_ddp = mesh.shard == mesh.tensor == mesh.stages == 1
    return [Message("all-reduce", mesh.data, whole, buckets, is_hidden=is_ddp)]


def _factors(stage: Stage) -> float:
    """Return the bytes of PowerSGD's factors of rank 4, and of the tensors that they would not shrink."""
    total = 0.0
    for section, count in stage.counted():
        for one in section.parameters:
            rows = one.shape[0]
            columns = one.size // rows
            small = 4 * (rows + columns)
            total += count * WHOLE * (small if len(one.shape) > 1 and small < one.size else one.size)
    return total


def _among_shards(spec: RecipeSpec, layout: Layout, stage: Stage) -> list[Message]:
    mesh, weights = layout.mesh, stage.weights(layout)
    blocks, ends = sum(weights[1:-1]), weights[0] + weights[-1]
    small = SMALL[spec.train.precision] / WHOLE
    again = 2 if spec.parallel.reshard_after_forward and mesh.stages == 1 else 1
    passes = layout.accumulate if again == 2 else 1  # who keeps weights gathers them once a step
    groups = len(weights) - 1
    return [
        Message("all-gather", mesh.shard, passes * (again * blocks * small + ends), passes * again * groups, True),
        Message("reduce-scatter", mesh.shard, passes * (blocks + ends), passes * groups, True),
    ]


def _between_stages(layout: Layout, stage: Stage) -> list[Message]:
    """One microbatch each way over each border that the stage has: its neighbours wait for both."""
    last = layout.mesh.stages - 1
    borders = (stage.index > 0) + (stage.index < last) if layout.chunks == 1 else 2
    times = layout.passes * borders * layout.chunks
    return [Message("send-receive", 2, times * stage.flow, times * 2)]


def _among_tensor_ranks(layout: Layout, stage: Stage) -> list[Message]:
    found = [
        Message(operation, layout.mesh.tensor, layout.passes * count * num_bytes, layout.passes * count, is_copied=True)
        for section, count in stage.counted()
        for operation, num_bytes in section.exchanges
    ]
    alike = sum(count * section.num_alike * WHOLE for section, count in stage.counted())
    return [*found, Message("all-reduce", layout.mesh.tensor, alike, 1)]


def seconds_of(rates: Rates, found: list[Message], backward_s: float, *, can_hide: bool, is_gpu: bool) -> float:
    """Return the seconds that a rank waits: what is hidden counts as far as backward is too short for it."""
    copied = 1.0 if is_gpu else COPIED_PACE
    hidden = sum(message.seconds(rates.links) for message in found if message.is_hidden)
    waited = sum(
        message.seconds(rates.links) * (copied if message.is_copied else 1.0)
        for message in found
        if not message.is_hidden
    )
    if can_hide:
        return waited + max(0.0, hidden - backward_s)
    return BUSY_PACE * (waited + hidden) + TURN_S * sum(message.times for message in found if message.is_hidden)
