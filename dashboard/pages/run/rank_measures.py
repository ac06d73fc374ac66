"""What the ranks of an attempt measured of their steps: a bar of phases for each."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from dashboard.pages.shared.estimate import Slice
from dashboard.pages.shared.numbers import percent, seconds
from runs.life.watching.phases import WAITING
from runs.models import Attempt
from runs.records.metrics.facts import facts_of
from runs.records.metrics.models import Fact
from trainyard.contract.base import SpecDocument
from trainyard.contract.facts import MEASURED, MeasuredFacts
from trainyard.spec.strategies.mesh import Mesh

# Names, what they are, and their series' colours: computing and communication as in the bars of a plan.
PHASES = {
    "data": ("Data", "waiting for the next batch", 5),
    "forward": ("Forward", "the forward passes, and the loss", 1),
    "backward": ("Backward", "the backward passes, until the last gradient", 6),
    "communication": ("Communication", "standing in collectives: sending, and waiting for other ranks", 2),
    "optimizer": ("Optimizer", "clipping the gradients, updating the weights", 3),
    "checkpoint": ("Checkpoint", "until a copy of the weights is taken", 9),
}
BALANCE = "With parallel.balance speed, slower ranks get fewer rows of the batch."


class RankMeasures(NamedTuple):
    rank: int
    node: str
    slices: list[Slice]
    step: str
    waits: str
    rows: int | None
    peak_bytes: float | None
    sent_bytes: float | None
    mfu: str
    is_slow: bool

    @property
    def description(self) -> str:
        """The bar in words, for screen readers."""
        return f"Rank {self.rank}: {'; '.join(f'{one.name} {one.text}' for one in self.slices)}"


class Measures(NamedTuple):
    ranks: list[RankMeasures]
    legend: list[Slice]
    advice: str
    num_steps: int
    step: int
    at: datetime
    is_balanced: bool


def measures(attempt: Attempt, nodes: Mapping[int, str], spec: SpecDocument, mesh: Mesh | None) -> Measures | None:
    """Return the last measures of the ranks of ``attempt``; None where there are none. ``nodes`` are names by rank."""
    if "script" in spec.get("task", {}):
        return None  # what it tells under this name is its own, and may be anything
    found_facts = facts_of(attempt.run_id, MEASURED, MeasuredFacts, attempt=attempt.fence)
    measured = {rank: one for rank, one in found_facts.items() if one.phases}
    if not measured:
        return None
    newest = Fact.objects.filter(run_id=attempt.run_id, attempt=attempt.fence, name=MEASURED, rank__in=measured)
    slow = {one.rank for one in attempt.stragglers}
    parallel = spec.get("parallel", {})
    ranks = [_rank(rank, nodes.get(rank, ""), data, is_slow=rank in slow) for rank, data in measured.items()]
    return Measures(
        ranks,
        [Slice(*words, "", "", "") for words in PHASES.values()],
        BALANCE if slow and _could_balance(spec, mesh) else "",
        min(data.num_steps for data in measured.values()),
        max(data.step for data in measured.values()),
        datetime.fromtimestamp(max(newest.values_list("at", flat=True)), UTC),
        len({data.rows for data in measured.values()}) > 1 or parallel.get("balance") == "speed",
    )


def _rank(rank: int, node: str, data: MeasuredFacts, *, is_slow: bool) -> RankMeasures:
    phases = {name: data.phases.get(name, 0.0) for name in PHASES}
    total = sum(phases.values()) or 1.0
    return RankMeasures(
        rank,
        node,
        _slices(phases, total),
        seconds(data.step_time_s or 0.0),
        percent(phases[WAITING] / total),
        data.rows,
        data.peak_memory_bytes,
        data.sent_bytes,
        percent(data.mfu),
        is_slow,
    )


def _slices(phases: Mapping[str, float], total: float) -> list[Slice]:
    made, left = [], 0.0
    for name, (label, words, colour) in PHASES.items():
        width = 100 * phases[name] / total
        if phases[name] > 0:
            text = f"{seconds(phases[name])}, {percent(phases[name] / total)}"
            made.append(Slice(label, words, colour, text, f"{left:.2f}%", f"{width:.2f}%"))
        left += width
    return made


def _could_balance(spec: SpecDocument, mesh: Mesh | None) -> bool:
    parallel = spec.get("parallel", {})
    is_plain = parallel.get("compression") == "none" and parallel.get("synchronization", {}).get("kind") == "every-step"
    return is_plain and parallel.get("balance") == "none" and mesh is not None and mesh.data == mesh.world_size
