"""Hangs: the rank that others wait for, found from the reports of all nodes together, its words, and what follows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from runs.models import Attempt, Placement
from runs.values.status import Status
from trainyard.contract.base import to_builtins
from trainyard.contract.causes import HangFinding, HangKind, RankStack
from trainyard.contract.reports import AttemptReport, PendingCollective, RankStall
from trainyard.formats.words import listed
from trainyard.spec.sections.hangs import HangRules
from trainyard.spec.sections.parallel import outlives_workers
from trainyard.spec.values.durations import words_of

JUDGED = (Status.RUNNING, Status.RECOVERING)
MAX_STACKS = 16  # of a finding: it travels to every node, and stands in the run's row
MAX_NAMED = 4


@dataclass(frozen=True)
class RankView:
    """One living rank of the attempt."""

    rank: int
    node: str
    stall: RankStall | None = None

    @property
    def known(self) -> RankStall:
        """Its stall; of a rank that makes progress one that says nothing."""
        return self.stall or RankStall(since=0.0)

    @property
    def collective(self) -> PendingCollective | None:
        """Collective in which it waits; a stopped process waits for nobody."""
        return None if self.known.is_stopped else self.known.collective

    @property
    def operation(self) -> str:
        return self.collective.operation if self.collective else "a collective"

    @property
    def operation_there(self) -> str:
        """The operation, with the line of the program."""
        return self.operation + (f" ({self.known.line})" if self.known.line else "")

    @property
    def limit(self) -> str:
        return words_of(self.known.limit_s)

    @property
    def state(self) -> str:
        """What it does, in a few words."""
        stall = self.stall
        if stall is None:
            return "makes progress"
        if stall.is_stopped:
            return "is stopped by a signal, so that it cannot say where it is"
        if stall.collective is not None:
            return f"waits in {stall.collective.operation}{f' at {stall.line}' if stall.line else ''}"
        return f"is at {stall.line}" if stall.line else "shows neither output nor use of the processor"


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
    is_over = any(view.known.is_over for view in ranks if view.known.is_stopped or finding.kind != HangKind.STOPPED)
    is_over |= finding.is_of_lost_node
    is_spare = outlives_workers and finding.rank not in (None, 0)
    finding.action = rules.action
    finding.acts = is_over and rules.action != "notify" and not is_spare
    ordered = sorted(ranks, key=lambda view: view.rank != finding.rank)  # the blamed one first
    finding.stacks = [RankStack(one.rank, one.node, one.state, one.known.stack) for one in ordered[:MAX_STACKS]]
    return finding


def _lost_node(ranks: Sequence[RankView], silent: Sequence[str]) -> HangFinding | None:
    """Nodes are out of contact, and every other rank waits in a collective. That is no proof: the silent ones may be
    at work. It is one where the kernel of a waiting rank finds that its bytes reach nobody, or where its limit has
    passed: two witnesses then miss the same node."""
    others = [view for view in ranks if view.node not in silent]
    if not others or len(others) == len(ranks) or not all(view.collective for view in others):
        return None
    proofs = [view for view in others if view.known.unacknowledged or view.known.is_over]
    if not proofs:
        return None
    nodes = f"{'Node' if len(silent) == 1 else 'Nodes'} {listed(silent, at_most=MAX_NAMED)}"
    first, who = proofs[0], f"rank {proofs[0].rank} on {proofs[0].node}"
    what = f"{who} has waited in {first.operation} for more than {first.limit}"
    if far := first.known.unacknowledged:
        what = f"nobody acknowledges what {who} sends to {listed(far, at_most=2)}"
    words = f"{nodes} {'is' if len(silent) == 1 else 'are'} out of contact, and {what}."
    finding = _finding(HangKind.NETWORK, None, proofs, words)
    finding.node = silent[0]
    finding.is_of_lost_node = True
    return finding


def _stopped(ranks: Sequence[RankView]) -> HangFinding | None:
    stopped = [view for view in ranks if view.known.is_stopped]
    if not stopped:
        return None
    waiting = [view for view in ranks if view.collective is not None]
    are, them = ("is", "it") if len(stopped) == 1 else ("are", "them")
    step = stopped[0].known.step
    words = f"{_who(stopped)} {are} stopped (SIGSTOP){'' if step is None else f' at step {step:,}'}"
    if waiting:
        words += f"; {_wait(waiting)} for {them} in {waiting[0].operation_there}"
    return _finding(HangKind.STOPPED, stopped[0], waiting, f"{words}.")


def _absent(ranks: Sequence[RankView]) -> HangFinding | None:
    """Blame the ranks that wait for nobody: with those in a collective that they have not entered before them."""
    late = [view for view in ranks if view.collective is None and view.known.is_over]
    if not late:
        return None
    waiting = [view for view in ranks if (one := view.collective) and (not one.ranks or late[0].rank in one.ranks)]
    rest = f"for more than {late[0].limit}{_where(late[0].known)}."
    if waiting:
        first, has = waiting[0], "has" if len(late) == 1 else "have"
        line = f" ({first.known.line})" if first.known.line else ""
        words = f"{_who(late)} {has} not entered {first.operation}, in which {_wait(waiting)}{line}, {rest}"
        return _finding(HangKind.NOT_ENTERED, late[0], waiting, words)
    what = "progress" if late[0].known.step is None else "step"
    return _finding(HangKind.NO_STEP, late[0], [], f"{_who(late[:1])} has made no {what} {rest}")


def _cut(ranks: Sequence[RankView]) -> HangFinding | None:
    """Return the finding where every rank waits in a collective and one's kernel finds that its bytes reach nobody."""
    stuck = [view for view in ranks if view.known.unacknowledged]
    if not stuck or len({view.node for view in ranks}) < 2 or not all(view.collective for view in ranks):
        return None
    nodes = listed(sorted({view.node for view in ranks}), at_most=MAX_NAMED)
    one, far = stuck[0], listed(stuck[0].known.unacknowledged, at_most=2)
    where = f"Every rank waits in a collective, rank {one.rank} on {one.node} in {one.operation_there}"
    words = f"{where}, and nobody acknowledges what it sends to {far}: the network between {nodes} is cut."
    return _finding(HangKind.NETWORK, None, stuck, words)


def _all_waiting(ranks: Sequence[RankView]) -> HangFinding | None:
    """Return the finding where every rank waits in a collective. Two operations in one place of a group's sequence wait
    for each other. Other places do not: a rank one ahead has got its data, and what it sent has not arrived."""
    if len(ranks) < 2 or not all(view.collective is not None and view.known.is_over for view in ranks):
        return None
    first: dict[tuple[str, int], RankView] = {}
    for view in ranks:
        collective = view.collective
        if collective is None or collective.is_pair:
            continue
        other = first.setdefault((collective.group, collective.sequence), view)
        if other.operation != view.operation:
            words = f"while {_wait([other])} in {other.operation_there}: they wait for each other."
            words = f"{_who([view])} waits in {view.operation_there}, {words}"
            return _finding(HangKind.MISMATCH, view, [other], words)
    nodes = sorted({view.node for view in ranks})
    one = ranks[0]
    words = f"Every rank waits in {one.operation_there}, and for more than {one.limit} nothing arrives"
    if len(nodes) > 1:
        words += f": the network between {listed(nodes[:MAX_NAMED])} carries none of the ranks' data."
        return _finding(HangKind.NETWORK, None, ranks, words)
    finding = _finding(HangKind.NO_STEP, None, ranks, f"{words}, though none is missing.")
    finding.node = nodes[0]
    return finding


def _finding(kind: HangKind, blamed: RankView | None, waiting: Sequence[RankView], sentence: str) -> HangFinding:
    return HangFinding(
        kind=kind,
        sentence=sentence[:1_000],
        node=blamed.node if blamed is not None else "",
        rank=blamed.rank if blamed is not None else None,
        collective=waiting[0].operation if waiting else "",
        line=next((one.known.line for one in [blamed, *waiting[:1]] if one and one.known.line), ""),
    )


def stacks_text(stacks: Sequence[RankStack]) -> str:
    """Return where each rank stands, the most recent call first."""
    return "\n\n".join(f"Rank {one.rank} on {one.node} {one.state}.\n{one.stack}".rstrip() for one in stacks)


def _who(ranks: Sequence[RankView]) -> str:
    nodes = sorted({view.node for view in ranks})
    return f"{_ranks(ranks).capitalize()} on {listed(nodes[:MAX_NAMED])}"


def _ranks(ranks: Sequence[RankView]) -> str:
    numbers = [str(view.rank) for view in ranks]
    return f"rank {numbers[0]}" if len(numbers) == 1 else f"ranks {listed(numbers, at_most=MAX_NAMED)}"


def _wait(ranks: Sequence[RankView]) -> str:
    return f"{_ranks(ranks)} {'waits' if len(ranks) == 1 else 'wait'}"


def _where(stall: RankStall) -> str:
    phase = f" ({stall.phase})" if stall.phase else ""
    step = f" in step {stall.step:,}{phase}" if stall.step is not None else ""
    place = f" at {stall.line}" if stall.line else ""
    return f": it is{step}{',' if step and place else ''}{place}" if step or place else ""


# Effects of a hang: the finding is stored with the attempt, in the run's history, and, where it acts, in the wanted
# state of every node.


def record_hang(
    attempt: Attempt, placements: Sequence[Placement], now: datetime, *, silent: Sequence[str] = ()
) -> bool:
    """Write what keeps the ranks now. Returns whether nodes are to be asked for something new. ``silent``: the names
    of nodes that are out of contact.

    A finding that acts stays: the ranks are ended for it.
    """
    before = attempt.known_hang
    if attempt.go is None or attempt.settling_at is not None or (before is not None and before.acts):
        return False
    if attempt.run.status not in JUDGED:
        return False
    ranks = living_ranks([(one.node.name, one.reported) for one in placements])
    rules = HangRules.of(attempt.run.spec)
    finding = find_hang(ranks, rules, outlives_workers=outlives_workers(attempt.run.spec), silent=silent)
    if finding is None:
        if before is not None:
            _write(attempt, None)
            attempt.run.record("hang-over", "The ranks make progress again.", attempt=attempt)
        return False
    finding.at = now.timestamp() if before is None else before.at
    if before == finding:
        return False
    _write(attempt, finding)
    if before is None or (before.kind, before.rank) != (finding.kind, finding.rank):
        attempt.run.record("hang-found", finding.sentence, data={"evidence": finding.evidence()}, attempt=attempt)
    return finding.acts


def _write(attempt: Attempt, finding: HangFinding | None) -> None:
    attempt.hang = None if finding is None else to_builtins(finding)
    attempt.save(update_fields=["hang"])
