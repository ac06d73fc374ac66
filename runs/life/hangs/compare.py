"""Search for the rank that others wait for: a pure function of the reports of all ranks."""

from collections.abc import Sequence
from dataclasses import dataclass

from runs.life.hangs import sentences
from trainyard.contract.causes import HangFinding, HangKind, RankStack
from trainyard.contract.reports import AttemptReport, PendingCollective, RankStall
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
        """Collective in which it waits; a stopped process waits for nobody."""
        return None if self.stall is None or self.stall.is_stopped else self.stall.collective


def living_ranks(reports: Sequence[tuple[str, AttemptReport]]) -> list[RankView]:
    """Return the ranks that have not ended. ``reports`` are by the nodes' names."""
    living = [(node, one) for node, report in reports for one in report.ranks if not one.is_over]
    return sorted((RankView(one.rank, node, one.stall) for node, one in living), key=lambda view: view.rank)


def find_hang(
    ranks: Sequence[RankView], rules: HangRules, *, outlives_workers: bool = False, silent: Sequence[str] = ()
) -> HangFinding | None:
    """Return what keeps the ranks, None while nothing is proved.

    A rank that waits for another looks like one that hangs. So the blame needs a rank that waits for nobody and whose
    own limit has passed; a rank that validates, saves or loads has a longer limit, and those that wait for it prove
    nothing. ``outlives_workers``: the run goes on without any rank but 0. ``silent``: nodes that are out of contact.
    """
    finding = None if outlives_workers else _lost_node(ranks, silent)
    finding = finding or _stopped(ranks) or _absent(ranks) or _cut(ranks) or _all_waiting(ranks)
    if finding is None:
        return None
    blamed = next((view for view in ranks if view.rank == finding.rank), None)
    is_over = any(view.is_over for view in ranks if view.is_stopped or finding.kind != HangKind.STOPPED)
    is_over |= finding.is_of_lost_node
    is_spare = outlives_workers and finding.rank not in (None, 0)
    finding.action = rules.action
    finding.acts = is_over and rules.action != "notify" and not is_spare
    finding.stacks = _stacks(ranks, blamed)
    return finding


def _lost_node(ranks: Sequence[RankView], silent: Sequence[str]) -> HangFinding | None:
    """Nodes are out of contact, and every other rank waits in a collective. That is no proof: the silent ones may be
    at work. It is one where the kernel of a waiting rank finds that its bytes reach nobody, or where its limit has
    passed: two witnesses then miss the same node."""
    others = [view for view in ranks if view.node not in silent]
    if not others or len(others) == len(ranks) or not all(view.collective for view in others):
        return None
    proofs = [view for view in others if (view.stall is not None and view.stall.unacknowledged) or view.is_over]
    if not proofs:
        return None
    finding = _finding(HangKind.NETWORK, None, proofs, sentences.lost_nodes(silent, proofs[0]))
    finding.node = silent[0]
    finding.is_of_lost_node = True
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
    waiting = [view for view in ranks if (one := view.collective) and (not one.ranks or late[0].rank in one.ranks)]
    if waiting:
        return _finding(HangKind.NOT_ENTERED, late[0], waiting, sentences.not_entered(late, waiting))
    return _finding(HangKind.NO_STEP, late[0], [], sentences.no_step(late[0]))


def _cut(ranks: Sequence[RankView]) -> HangFinding | None:
    """Return the finding where every rank waits in a collective and one's kernel finds that its bytes reach nobody."""
    stuck = [view for view in ranks if view.stall is not None and view.stall.unacknowledged]
    if not stuck or len({view.node for view in ranks}) < 2 or not all(view.collective for view in ranks):
        return None
    return _finding(HangKind.NETWORK, None, stuck, sentences.cut(ranks, stuck[0]))


def _all_waiting(ranks: Sequence[RankView]) -> HangFinding | None:
    """Return the finding where every rank waits in a collective. Two operations in one place of a group's sequence wait
    for each other. Other places do not: a rank one ahead has got its data, and what it sent has not arrived."""
    if len(ranks) < 2 or not all(view.collective is not None and view.is_over for view in ranks):
        return None
    first: dict[tuple[str, int], RankView] = {}
    for view in ranks:
        collective = view.collective
        if collective is None or collective.is_pair:
            continue
        other = first.setdefault((collective.group, collective.sequence), view)
        if other.collective is not None and other.collective.operation != collective.operation:
            return _finding(HangKind.MISMATCH, view, [other], sentences.mismatch(view, [other]))
    kind = HangKind.NETWORK if len({view.node for view in ranks}) > 1 else HangKind.NO_STEP
    finding = _finding(kind, None, list(ranks), sentences.nothing_arrives(ranks))
    finding.node = ranks[0].node if kind == HangKind.NO_STEP else ""
    return finding


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
