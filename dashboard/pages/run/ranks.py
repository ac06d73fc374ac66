"""The ranks of every attempt of a run, from what its nodes reported last."""

from __future__ import annotations

import signal
from datetime import UTC, datetime
from typing import NamedTuple

from dashboard.pages.run.evidence import CAUSE_WORDS
from dashboard.pages.run.rank_measures import Measures, measures
from dashboard.pages.shared.check_rows import CheckTable, check_table
from runs.ingest.commit import REST
from runs.life.hangs.sentences import stacks_text
from runs.models import Attempt, Placement, Run
from runs.records.metrics.models import Producer
from runs.values.status import Phase
from trainyard.contract.base import SpecDocument
from trainyard.contract.causes import HangFinding
from trainyard.contract.reports import RankReport, RankStall
from trainyard.spec import RecipeSpec, read_spec
from trainyard.spec.strategies.mesh import Mesh, make_mesh


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
    place: list[int]  # its coordinates on the attempt's axes


class AttemptView(NamedTuple):
    attempt: Attempt
    placements: list[Placement]
    ranks: list[Rank]
    axes: dict[str, int]  # the degrees above 1, outermost first
    measures: Measures | None
    cause_word: str
    hang: HangFinding | None
    stacks: str  # where each rank stood when it hung
    checks: CheckTable | None  # of its nodes, when it was placed
    images: list[str]  # of the containers that its ranks run in


def attempts(run: Run) -> list[AttemptView]:
    """Newest first."""
    found = run.attempts.order_by("-number").prefetch_related("placements__node", "preflights")
    return [_view(one, run.spec) for one in found]


def processes_elsewhere(run: Run) -> list[Producer]:
    """What is known of each process of a run that was logged outside of Trainyard: its records."""
    return list(Producer.objects.filter(run_id=run.pk).exclude(role=REST).order_by("rank", "pk"))


def _view(attempt: Attempt, spec: SpecDocument) -> AttemptView:
    mesh = _mesh(spec, attempt.world_size)
    ranks = _ranks(attempt, mesh)
    found = measures(attempt, {one.rank: one.node for one in ranks}, spec, mesh)
    cause, hang = attempt.known_cause, attempt.known_hang
    word = CAUSE_WORDS[cause.cause_class] if cause else ""
    stacks = stacks_text(hang.stacks) if hang is not None else ""
    placements, axes = list(attempt.placements.all()), mesh.used if mesh else {}
    preflight = next(iter(attempt.preflights.all()), None)
    checks = check_table(preflight.checks) if preflight is not None else None
    images = list(dict.fromkeys(one.image for one in placements if one.image))
    return AttemptView(attempt, placements, ranks, axes, found, word, hang, stacks, checks, images)


def _mesh(spec: SpecDocument, world_size: int) -> Mesh | None:
    """How the ranks of an attempt share the work; None for a script, and where the degrees give no such world."""
    try:
        found = read_spec(spec)
        return make_mesh(found.parallel, world_size) if isinstance(found, RecipeSpec) else None
    except ValueError:
        return None


def _ranks(attempt: Attempt, mesh: Mesh | None) -> list[Rank]:
    made = []
    for placement in attempt.placements.all():
        reported = {rank.rank: rank for rank in placement.reported.ranks}
        for local in range(placement.num_ranks):
            rank = placement.first_rank + local
            report = reported.get(rank) or RankReport(rank=rank)
            made.append(_rank(rank, local, placement, report, attempt, _place(mesh, rank)))
    return made


def _place(mesh: Mesh | None, rank: int) -> list[int]:
    if mesh is None or rank >= mesh.world_size:
        return []
    at = mesh.coordinates_of(rank)
    return [at[axis] for axis in mesh.used]


def _rank(rank: int, local: int, placement: Placement, report: RankReport, attempt: Attempt, place: list[int]) -> Rank:
    started, ended = _moment(report.started_at), _moment(report.ended_at)
    state, colour = _state(report, placement, attempt)
    error = report.error
    return Rank(
        rank,
        local,
        placement.node.name,
        report.pid,
        state,
        colour,
        started,
        (ended - started).total_seconds() if started and ended else None,
        f"{error.type or ''}: {error.message or ''}".strip(": ") if error else "",
        place,
    )


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
    return {Phase.PREPARING: "preparing", Phase.READY: "ready", Phase.REFUSED: "refused"}.get(
        Phase(placement.phase), str(placement.phase)
    ), ("red" if placement.phase == Phase.REFUSED else "blue")


def _standing(stall: RankStall) -> tuple[str, str]:
    if stall.is_stopped:
        return "stopped by a signal", "red"
    words = f"waits in {stall.collective.operation}" if stall.collective is not None else "makes no step"
    return words, "red" if stall.is_over and stall.collective is None else "amber"


def _moment(seconds: float | None) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds else None
