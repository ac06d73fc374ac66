"""What ranks send each other in a step, and how long that takes.

What was measured over one number of ranks is carried over to another by the rounds and shares of a ring.
"""

from __future__ import annotations

from collections.abc import Mapping

from trainyard.planner.layout import Layout
from trainyard.planner.machines.rates import Link, Rates
from trainyard.planner.memory import Stage
from trainyard.spec.models import RecipeSpec
from trainyard.spec.strategies import used
from trainyard.spec.strategies.messages import Message, rounds, share

TURN_S = 1.5e-3  # that a collective waits for a core, where ranks compute on all of them meanwhile…
BUSY_PACE = 1.5  # …and times as long as the quickest tenth of bare ones that it then takes
COPIED_PACE = 2.0  # times as long as a bare one that a collective in the midst of a block takes on a CPU
FALLBACKS = {
    "all-gather": ("all-reduce",),
    "reduce-scatter": ("all-gather", "all-reduce"),
    "send-receive": ("all-gather", "all-reduce"),
    "all-reduce": ("ring", "all-gather"),
}


def seconds(message: Message, links: Mapping[str, Link]) -> float:
    """Return how long a rank is busy with ``message``, where nothing else goes on."""
    link = find_link(links, message.operation)
    if link is None or message.ranks < 2:
        return 0.0
    growth = rounds(message.operation, message.ranks) / rounds(message.operation, link.ranks)
    carried = share(message.operation, message.ranks) / share(message.operation, link.ranks)
    return message.times * link.latency_s * growth + message.num_bytes / link.bytes_per_s * carried


def find_link(links: Mapping[str, Link], operation: str) -> Link | None:
    for name in (operation, *FALLBACKS.get(operation, ())):
        if name in links:
            return links[name]
    return None


def messages(spec: RecipeSpec, layout: Layout, stage: Stage) -> list[Message]:
    """Return what a rank of ``stage`` exchanges in a step."""
    found = [Message("all-reduce", layout.mesh.world_size, 8.0, 2)]  # the loss, and the norm of the gradients
    for strategy in used(spec, layout.mesh):
        found += strategy.messages(spec, layout, stage)
    return [message for message in found if message.ranks > 1]


def seconds_of(rates: Rates, found: list[Message], backward_s: float, *, can_hide: bool, is_gpu: bool) -> float:
    """Return the seconds that a rank waits: what is hidden counts as far as backward is too short for it."""
    copied = 1.0 if is_gpu else COPIED_PACE
    hidden = sum(seconds(message, rates.links) for message in found if message.is_hidden)
    waited = sum(
        seconds(message, rates.links) * (copied if message.is_copied else 1.0)
        for message in found
        if not message.is_hidden
    )
    if can_hide:
        return waited + max(0.0, hidden - backward_s)
    return BUSY_PACE * (waited + hidden) + TURN_S * sum(message.times for message in found if message.is_hidden)
