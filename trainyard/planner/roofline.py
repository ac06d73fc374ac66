"""Time in which a step computes and exchanges: a roofline (Williams et al. 2009) of measured ceilings, and links.

Each product takes its FLOPs over the measured rate of its kind and size, everything else the bytes that it moves over
the memory's bandwidth, each operator what calling it costs. On a CPU these add up; a GPU is told what to do ahead of
time, so that calling counts only where it is longer than the work itself. What was measured of a collective over one
number of ranks is carried over to another by the rounds and shares of a ring (Patarasuk & Yuan 2009).
"""

from collections.abc import Mapping, Sequence

from trainyard.planner.machines import Link, Rates
from trainyard.spec.models import RecipeSpec
from trainyard.spec.strategies import used
from trainyard.spec.strategies.costs import PRODUCTS, Layout, Section, Stage, Work
from trainyard.spec.strategies.messages import WHOLE, Message, rounds, share

STEP_CALLS = 60  # of operators: the loop, the optimizer's groups, the data
# Calls that selective checkpointing's look at an operator of a block takes as long as. One to a GPU is longer itself.
DISPATCHED_CALLS, DISPATCHED_ON_GPU = 120, 5
OPTIMIZER_BYTES = {"adamw": 28, "sgd": 20, "muon": 28}  # read and written of each number
CLIP_BYTES = 12  # of each gradient: read once for the norm, then read and written
NEWTON_SCHULZ = 5  # iterations of Muon, each of three products (Jordan et al. 2024)
COPIES = 4  # times that DTensor reads or writes a payload to bring it into the order in which it travels, and back
FALLBACKS = {
    "all-gather": ("all-reduce",),
    "reduce-scatter": ("all-gather", "all-reduce"),
    "send-receive": ("all-gather", "all-reduce"),
    "all-reduce": ("ring", "all-gather"),
}


def pass_time(spec: RecipeSpec, layout: Layout, stage: Stage, rates: Rates, *, is_gpu: bool) -> tuple[float, float]:
    """Return the seconds of one pass, or microbatch, through ``stage``, forward and backward."""
    kind = spec.train.activation_checkpointing
    forward = backward = sum(way.calls(layout, stage) for way in used(spec, layout.mesh)) * rates.operator_s / 2
    for section, count in stage.counted():
        ahead, back = section_time(section, rates, layout.precision, is_gpu=is_gpu)
        forward += count * ahead
        backward += count * back
        if kind == "full" and section.entry:
            backward += count * ahead
        elif kind == "selective" and section.entry:  # all but the products is computed again
            kept = [one for one in section.works if one.kind in PRODUCTS]
            products = sum(_work_time(one, rates, layout.precision, is_gpu=is_gpu) for one in kept)
            looked_at = (DISPATCHED_ON_GPU if is_gpu else DISPATCHED_CALLS) * section.calls * rates.operator_s
            backward += count * (max(0.0, ahead - products) + looked_at)
    return forward, backward


def section_time(section: Section, rates: Rates, precision: str = "fp32", *, is_gpu: bool) -> tuple[float, float]:
    """Return the seconds of one pass through a section, forward and backward."""
    ahead, back = (num_bytes / rates.memory_bytes_per_s for num_bytes in section.moved)
    for one in section.works:
        seconds = _work_time(one, rates, precision, is_gpu=is_gpu)
        ahead, back = ahead + one.forward * seconds, back + one.backward * seconds
    called = section.calls * rates.operator_s
    return (max(ahead, called), max(back, 2 * called)) if is_gpu else (ahead + called, back + 2 * called)


def optimizer_time(spec: RecipeSpec, layout: Layout, stage: Stage, rates: Rates, *, is_gpu: bool = False) -> float:
    """Return the seconds of the optimizer, of the clip and of what a step costs by itself. A GPU's kernels take many
    parameters at once."""
    numbers = sum(stage.weights(layout)) / WHOLE / layout.mesh.shard
    size = numbers * OPTIMIZER_BYTES[spec.train.optimizer]
    seconds = size / rates.rate("optimizer", size) if size else 0.0
    seconds += numbers * CLIP_BYTES / rates.memory_bytes_per_s if spec.train.gradient_clip else 0.0
    parameters = 0 if is_gpu else sum(len(section.parameters) for section in stage.sections)
    seconds += (STEP_CALLS + 2 * parameters) * rates.operator_s
    if spec.train.optimizer != "muon":
        return seconds
    matrices = [one for section in stage.sections if section.entry for one in section.parameters if len(one.shape) == 2]
    for small, large in (sorted(one.shape) for one in matrices):
        for flops in (2.0 * small**2 * large, 2.0 * small**3, 2.0 * small**2 * large):
            seconds += NEWTON_SCHULZ * (flops / rates.rate("matmul", flops, "bf16") + 2 * rates.operator_s)
    return seconds


def messages(spec: RecipeSpec, layout: Layout, stage: Stage) -> list[Message]:
    """Return what a rank of ``stage`` exchanges in a step."""
    found = [Message("all-reduce", layout.mesh.world_size, 8.0, 2)]  # the loss, and the norm of the gradients
    for strategy in used(spec, layout.mesh):
        found += strategy.messages(spec, layout, stage)
    return [message for message in found if message.ranks > 1]


def exchange_time(found: Sequence[Message], rates: Rates, backward_s: float, *, can_hide: bool) -> float:
    """Return the seconds that a rank waits. Where it ``can_hide``, messages during the backward pass count only as far
    as they take longer than that pass."""
    waited = sum(_seconds(message, rates) for message in found if not message.is_hidden)
    hidden = sum(_seconds(message, rates) for message in found if message.is_hidden)
    return waited + (max(0.0, hidden - backward_s) if can_hide else hidden)


def find_link(links: Mapping[str, Link], operation: str) -> Link | None:
    return next((links[name] for name in (operation, *FALLBACKS.get(operation, ())) if name in links), None)


def _seconds(message: Message, rates: Rates) -> float:
    """Return how long a rank is busy with ``message``, where nothing else goes on."""
    link = find_link(rates.links, message.operation)
    if link is None:
        return 0.0
    growth = rounds(message.operation, message.ranks) / rounds(message.operation, link.ranks)
    carried = share(message.operation, message.ranks) / share(message.operation, link.ranks)
    copied = COPIES * message.num_bytes / rates.memory_bytes_per_s if message.is_copied else 0.0
    return message.times * link.latency_s * growth + message.num_bytes / link.bytes_per_s * carried + copied


def _work_time(one: Work, rates: Rates, precision: str, *, is_gpu: bool) -> float:
    """Return the seconds of one operator. A GPU has all pieces at once."""
    size = one.size if is_gpu else one.piece or one.size
    return one.size / rates.rate(one.kind, size, precision) if size else 0.0
