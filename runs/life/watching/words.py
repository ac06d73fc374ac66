"""Sentences about ranks that slow the others down, and about values that broke a rule. Pure."""

from collections.abc import Sequence
from itertools import groupby

from runs.values.columns import MetricAlarm, SlowRank
from trainyard.formats.figures import number, seconds
from trainyard.formats.words import listed

MAX_NAMED = 4
# Of one rank, and of several.
IN_PHASE = {
    "data": ("in reading its data", "in reading their data"),
    "forward": ("in its forward pass", "in their forward passes"),
    "backward": ("in its backward pass", "in their backward passes"),
    "optimizer": ("in its optimizer step", "in their optimizer steps"),
    "": ("in its own work", "in their own work"),
}
MANY_DEVIATIONS = 1_000.0  # above it their number says nothing
LARGEST_TIMES = 100.0  # above it the difference says more than the ratio


def slow_sentences(found: Sequence[SlowRank], *, num_ranks: int) -> list[str]:
    """Return a sentence for the slow ranks of each node and phase."""
    ordered = sorted(found, key=lambda one: (one.node, one.phase, one.rank))
    groups = groupby(ordered, key=lambda one: (one.node, one.phase))
    return [slow_sentence(list(group), num_ranks=num_ranks) for _, group in groups]


def slow_sentence(group: Sequence[SlowRank], *, num_ranks: int) -> str:
    """Say of ranks of one node that are slow in the same phase how much, in what and for how long."""
    several = len(group) > 1
    times = sum(one.times for one in group) / len(group)
    excess_s = sum(one.excess_s for one in group) / len(group)
    steps = max(one.last_step - one.since_step + 1 for one in group)
    others = "the other" if num_ranks - len(group) == 1 else "the others"
    if times > LARGEST_TIMES:
        how = f"{seconds(excess_s)} slower than {others}"
    else:
        how = f"{times:.1f} times as slow as {others}"
    where = IN_PHASE.get(group[0].phase, IN_PHASE[""])[several]
    return (
        f"{who(group)} {'have' if several else 'has'} been {how} {where} for {steps:,} step{'s' if steps != 1 else ''}."
    )


def over_sentence(group: Sequence[SlowRank], *, num_ranks: int) -> str:
    """Say that ranks keep up again."""
    several = len(group) > 1
    others = "the other" if num_ranks - len(group) == 1 else "the others"
    return f"{who(group)} keep{'' if several else 's'} up with {others} again."


def who(group: Sequence[SlowRank]) -> str:
    ranks = [str(one.rank) for one in group]
    nodes = sorted({one.node for one in group if one.node})
    where = f" on {nodes[0]}" if len(nodes) == 1 else f" on {len(nodes)} nodes" if nodes else ""
    return f"Rank {ranks[0]}{where}" if len(ranks) == 1 else f"Ranks {listed(ranks, at_most=MAX_NAMED)}{where}"


def alarm_sentence(alarm: MetricAlarm, *, over: int, deviations: float | None) -> str:
    """Say which value broke a rule, and by how much."""
    where = "".join(f" {name} {value}" for name, value in sorted(alarm.labels.items()))
    name = f"{alarm.metric}{f' of{where}' if where else ''}"
    if alarm.kind == "nan":
        what = "not a number" if alarm.word == "NaN" else "infinite"
        return f"{name} is {what} at step {alarm.first_step:,}."
    far = f"{deviations:,.0f} deviations" if deviations is not None and deviations < MANY_DEVIATIONS else "far"
    words = f"{far} above {number(alarm.usual)}, the median of up to {over:,} values before it."
    return f"{name} rose to {number(alarm.value)} at step {alarm.first_step:,}: {words}"
