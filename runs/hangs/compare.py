"""Which rank others wait for: a pure function of what all ranks report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runs.hangs import sentences
from trainyard.contract.causes import HangFinding, HangKind, RankStack
from trainyard.contract.reports import AttemptReport, PendingCollective, RankReport, RankStall
from trainyard.spec.sections.hangs import HangRules

MAX_STACKS = 16  # of a finding: it travels to every node, and stands in the run's row


@dataclass(frozen=True)
class RankView:
    """One living rank of the attempt."""

    rank: int
    node: str
    stall: RankStall | None = None

    @property
    def is_over(self) -> bool:
        return self.stall is not None and self.stall.is_over

    @property
    def is_stopped(self) -> bool:
        return self.stall is not None and self.stall.is_stopped

    @property
    def collective(self) -> PendingCollective | None:
        """What it waits in; a stopped process waits for nobody."""
        return None if self.stall is None or self.stall.is_stopped else self.stall.collective


def living_ranks(reports: Sequence[tuple[str, AttemptReport]]) -> list[RankView]:
    """Return the ranks that have not ended. ``reports`` are by the nodes' names."""
    views = [_view(node, rank) for node, report in reports for rank in report.ranks if not rank.is_over]
    return sorted(views, key=lambda view: view.rank)


def _view(node: str, rank: RankReport) -> RankView:
    return RankView(rank.rank, node, rank.stall)


def find_hang(ranks: Sequence[RankView], rules: HangRules, *, outlives_workers: bool = False) -> HangFinding | None:
    """Return what keeps the ranks, None while nothing is proved.

    A rank that waits for another looks like one that hangs. So the blame needs a rank that waits for nobody and whose
    own limit has passed; a rank that validates, saves or loads has a longer limit, and those that wait for it prove
    nothing. ``outlives_workers``: the run goes on without any rank but 0.
    """
    finding = _stopped(ranks) or _absent(ranks) or _all_waiting(ranks)
    if finding is None:
        return None
    blamed = next((view for view in ranks if view.rank == finding.rank), None)
    is_over = finding.kind != HangKind.STOPPED or any(view.is_over for view in ranks if view.is_stopped)
    is_spare = outlives_workers and finding.rank not in (None, 0)
    finding.action = rules.action
    finding.acts = is_over and rules.action != "notify" and not is_spare
    finding.stacks = _stacks(ranks, blamed)
    return finding


def _stopped(ranks: Sequence[RankView]) -> HangFinding | None:
    stopped = [view for view in ranks if view.is_stopped]
    if not stopped:
        return None
    waiting = [view for view in ranks if view.collective is not None]
    return _finding(HangKind.STOPPED, stopped[0], waiting, sentences.stopped(stopped, waiting))


def _absent(ranks: Sequence[RankView]) -> HangFinding | None:
    """Blame the ranks that wait for nobody: with those in a collective that they have not entered before them."""
    late = [view for view in ranks if view.collective is None and view.is_over]
    if not late:
        return None
    waiting = [view for view in ranks if view.collective is not None and _includes(view.collective, late[0].rank)]
    if waiting:
        return _finding(HangKind.NOT_ENTERED, late[0], waiting, sentences.not_entered(late, waiting))
    return _finding(HangKind.NO_STEP, late[0], [], sentences.no_step(late[0]))


def _includes(collective: PendingCollective, rank: int) -> bool:
    return not collective.ranks or rank in collective.ranks


def _all_waiting(ranks: Sequence[RankView]) -> HangFinding | None:
    """Every rank waits in a collective. Where one group has ranks in two of its collectives, the earlier one is the
    odd one out; where all members of each group are in the same, bytes do not arrive."""
    if len(ranks) < 2 or not all(view.collective is not None and view.is_over for view in ranks):
        return None
    for group in sorted({view.collective.group for view in ranks if view.collective}):
        inside = [view for view in ranks if view.collective and view.collective.group == group]
        inside = [view for view in inside if view.collective and not view.collective.is_pair]
        found = {(view.collective.sequence, view.collective.operation) for view in inside if view.collective}
        if len(found) > 1:
            behind = min(inside, key=lambda view: (view.collective.sequence if view.collective else 0, view.rank))
            others = [view for view in inside if view is not behind]
            return _finding(HangKind.MISMATCH, behind, others, sentences.mismatch(behind, others))
        outside = [view for view in ranks if view not in inside and inside and _awaited(inside[0], view)]
        if outside:
            return _finding(HangKind.MISMATCH, outside[0], inside, sentences.mismatch(outside[0], inside))
    kind = HangKind.NETWORK if len({view.node for view in ranks}) > 1 else HangKind.NO_STEP
    finding = _finding(kind, None, list(ranks), sentences.nothing_arrives(ranks))
    finding.node = ranks[0].node if kind == HangKind.NO_STEP else ""
    return finding


def _awaited(inside: RankView, other: RankView) -> bool:
    """Whether the group that one rank waits in has the other as a member too."""
    return inside.collective is not None and other.rank in inside.collective.ranks


def _finding(kind: HangKind, blamed: RankView | None, waiting: Sequence[RankView], sentence: str) -> HangFinding:
    first = waiting[0].collective if waiting else None
    line = blamed.stall.line if blamed is not None and blamed.stall is not None else ""
    if not line and waiting and waiting[0].stall is not None:
        line = waiting[0].stall.line
    return HangFinding(
        kind=kind,
        sentence=sentence[:1_000],
        node=blamed.node if blamed is not None else "",
        rank=blamed.rank if blamed is not None else None,
        collective=first.operation if first is not None else "",
        line=line,
    )


def _stacks(ranks: Sequence[RankView], blamed: RankView | None) -> list[RankStack]:
    """Return where the ranks stand, the blamed one first."""
    ordered = [view for view in ranks if view is blamed] + [view for view in ranks if view is not blamed]
    return [
        RankStack(view.rank, view.node, sentences.state(view), view.stall.stack if view.stall is not None else "")
        for view in ordered[:MAX_STACKS]
    ]
