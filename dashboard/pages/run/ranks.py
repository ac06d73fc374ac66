"""The ranks of every attempt of a run, from what its nodes reported last."""

import signal
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from dashboard.pages.run.evidence import CAUSE_WORDS
from dashboard.pages.shared.estimate import Slice, slices_of
from dashboard.pages.shared.gauges import check_table
from runs.ingest.commit import REST
from runs.life.hangs import stacks_text
from runs.life.watching.scores import WAITING
from runs.life.watching.slow_ranks import slow_sentence
from runs.models import Attempt, Placement, Run
from runs.records.metrics.models import Fact, Producer
from runs.records.metrics.progress import facts_of
from runs.values.status import Phase
from trainyard.contract.base import SpecDocument
from trainyard.contract.facts import MEASURED, MeasuredFacts
from trainyard.contract.reports import RankReport, RankStall
from trainyard.formats.figures import percent, seconds
from trainyard.spec import RecipeSpec, read_spec
from trainyard.spec.strategies.mesh import Mesh, make_mesh

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


class Rank(NamedTuple):
    rank: int
    local_rank: int
    node: str
    pid: int | None
    state: str
    colour: str
    started_at: datetime | None
    duration_s: float | None
    error: str
    place: Mapping[str, int] = {}  # its coordinates on the attempt's axes
    slow: str = ""  # the sentence of the watch for stragglers, where it keeps the others waiting


def attempts(run: Run) -> list[dict[str, object]]:
    """Newest first."""
    found = run.attempts.order_by("-number").prefetch_related("placements__node", "preflights")
    return [_view(one, run.spec) for one in found]


def processes_elsewhere(run: Run) -> list[Producer]:
    """Return the records' producers, one for each process of a run that was logged outside of Trainyard."""
    return list(Producer.objects.filter(run_id=run.pk).exclude(role=REST).order_by("rank", "pk"))


def _view(attempt: Attempt, spec: SpecDocument) -> dict[str, object]:
    mesh = mesh_of(spec, attempt.world_size)
    ranks, placements = ranks_of(attempt, mesh), list(attempt.placements.all())
    cause, hang, preflight = attempt.known_cause, attempt.known_hang, next(iter(attempt.preflights.all()), None)
    return {
        "attempt": attempt,
        "placements": placements,
        "ranks": ranks,
        "axes": mesh.used if mesh else {},
        "measures": measures(attempt, {one.rank: one.node for one in ranks}, spec, mesh),
        "cause_word": CAUSE_WORDS[cause.cause_class] if cause else "",
        "hang": hang,
        "stacks": stacks_text(hang.stacks) if hang is not None else "",  # where each rank stood when it hung
        "checks": check_table(preflight.checks) if preflight is not None else None,
        "images": list(dict.fromkeys(one.image for one in placements if one.image)),
    }


def mesh_of(spec: SpecDocument, world_size: int) -> Mesh | None:
    """Return the mesh of an attempt's ranks; None for a script, and where the degrees give no such world."""
    try:
        found = read_spec(spec)
        return make_mesh(found.parallel, world_size) if isinstance(found, RecipeSpec) else None
    except ValueError:
        return None


def ranks_of(attempt: Attempt, mesh: Mesh | None) -> list[Rank]:
    slow = {one.rank: slow_sentence([one], num_ranks=attempt.world_size) for one in attempt.stragglers}
    used, made = mesh.used if mesh else {}, []
    for placement in attempt.placements.all():
        reported = {rank.rank: rank for rank in placement.reported.ranks}
        for local in range(placement.num_ranks):
            rank = placement.first_rank + local
            report = reported.get(rank) or RankReport(rank=rank)
            at = mesh.coordinates_of(rank) if mesh and rank < mesh.world_size else {}
            place = {axis: at[axis] for axis in used if at}
            name, state, error = placement.node.name, _state(report, placement, attempt), report.error
            started, ended = _moment(report.started_at), _moment(report.ended_at)
            took_s = (ended - started).total_seconds() if started and ended else None
            why = f"{error.type or ''}: {error.message or ''}".strip(": ") if error else ""
            made.append(Rank(rank, local, name, report.pid, *state, started, took_s, why, place, slow.get(rank, "")))
    return made


def _state(report: RankReport, placement: Placement, attempt: Attempt) -> tuple[str, str]:
    """A word and a colour: what the node proved of the rank, else how far its node is."""
    if number := report.signal:
        name = signal.Signals(number).name if number in {one.value for one in signal.Signals} else f"signal {number}"
        return f"killed by {name}", "red"
    if report.exit_code is not None:
        return ("finished", "green") if report.exit_code == 0 else (f"exit code {report.exit_code}", "red")
    if report.stall is not None and attempt.ended_at is None:
        return _standing(report.stall)
    if report.pid and attempt.ended_at is None:
        return ("stopping", "grey") if placement.phase == Phase.STOPPING else ("running", "green")
    if attempt.ended_at is not None:
        return "not known", "grey"
    return str(placement.phase), "red" if placement.phase == Phase.REFUSED else "blue"


def _standing(stall: RankStall) -> tuple[str, str]:
    if stall.is_stopped:
        return "stopped by a signal", "red"
    words = f"waits in {stall.collective.operation}" if stall.collective is not None else "makes no step"
    return words, "red" if stall.is_over and stall.collective is None else "amber"


def _moment(seconds: float | None) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds else None


# Measurements of an attempt's steps by its ranks: a bar of phases for each rank.


class RankMeasures(NamedTuple):
    rank: int
    node: str
    data: MeasuredFacts
    slices: list[Slice]
    step: str
    waits: str
    mfu: str
    is_slow: bool

    @property
    def description(self) -> str:
        """The bar in words, for screen readers."""
        return f"Rank {self.rank}: {'; '.join(f'{one.name} {one.text}' for one in self.slices)}"


def measures(
    attempt: Attempt, nodes: Mapping[int, str], spec: SpecDocument, mesh: Mesh | None
) -> dict[str, object] | None:
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
    ranks = [_measure_of_rank(rank, nodes.get(rank, ""), data, is_slow=rank in slow) for rank, data in measured.items()]
    return {
        "ranks": ranks,
        "legend": [Slice(*words, "", "", "") for words in PHASES.values()],
        "advice": BALANCE if slow and _could_balance(spec, mesh) else "",
        "num_steps": min(data.num_steps for data in measured.values()),
        "step": max(data.step for data in measured.values()),
        "at": datetime.fromtimestamp(max(newest.values_list("at", flat=True)), UTC),
        "is_balanced": len({data.rows for data in measured.values()}) > 1 or parallel.get("balance") == "speed",
    }


def _measure_of_rank(rank: int, node: str, data: MeasuredFacts, *, is_slow: bool) -> RankMeasures:
    total = sum(data.phases.get(name, 0.0) for name in PHASES) or 1.0
    parts = [(data.phases.get(name, 0.0), *words) for name, words in PHASES.items()]
    slices = slices_of(parts, total, lambda value: f"{seconds(value)}, {percent(value / total)}")
    waits = percent(data.phases.get(WAITING, 0.0) / total)
    return RankMeasures(rank, node, data, slices, seconds(data.step_time_s or 0.0), waits, percent(data.mfu), is_slow)


def _could_balance(spec: SpecDocument, mesh: Mesh | None) -> bool:
    parallel = spec.get("parallel", {})
    is_plain = parallel.get("compression") == "none" and parallel.get("synchronization", {}).get("kind") == "every-step"
    return is_plain and parallel.get("balance") == "none" and mesh is not None and mesh.data == mesh.world_size
