"""Sentences about a hang, and what follows from it."""

from collections.abc import Sequence
from datetime import datetime

from runs.life.hangs.compare import RankView, find_hang, living_ranks
from runs.models import Attempt, Placement
from runs.values.status import Status
from trainyard.contract.base import to_builtins
from trainyard.contract.causes import HangFinding, RankStack
from trainyard.formats.words import listed
from trainyard.spec.sections.hangs import HangRules
from trainyard.spec.sections.parallel import outlives_workers
from trainyard.spec.values.durations import words_of

JUDGED = (Status.RUNNING, Status.RECOVERING)
MAX_NAMED = 4


def stopped(ranks: Sequence[RankView], waiting: Sequence[RankView]) -> str:
    are, them = ("is", "it") if len(ranks) == 1 else ("are", "them")
    return f"{_who(ranks)} {are} stopped (SIGSTOP){_at_step(ranks[0])}{_awaited(waiting, them)}."


def not_entered(late: Sequence[RankView], waiting: Sequence[RankView]) -> str:
    verb, what = "has" if len(late) == 1 else "have", _operation(waiting[0])
    waits = f"in which {_ranks(waiting)} {_wait(waiting)}{_place(waiting[0])}"
    return f"{_who(late)} {verb} not entered {what}, {waits}, for more than {_limit(late[0])}{_where(late[0])}."


def no_step(late: RankView) -> str:
    what = "made no step" if late.stall is not None and late.stall.step is not None else "made no progress"
    return f"{_who([late])} has {what} for more than {_limit(late)}{_where(late)}."


def mismatch(behind: RankView, others: Sequence[RankView]) -> str:
    first = others[0]
    words = f"while {_ranks(others)} {_wait(others)} in {_operation(first)}{_place(first)}: they wait for each other."
    return f"{_who([behind])} waits in {_operation(behind)}{_place(behind)}, {words}"


def nothing_arrives(ranks: Sequence[RankView]) -> str:
    nodes = sorted({view.node for view in ranks})
    operation = _operation(ranks[0])
    where = f"Every rank waits in {operation}{_place(ranks[0])}, and for more than {_limit(ranks[0])} nothing arrives"
    if len(nodes) == 1:
        return f"{where}, though none is missing."
    return f"{where}: the network between {listed(nodes[:MAX_NAMED])} carries none of the ranks' data."


def lost_nodes(silent: Sequence[str], waiting: RankView) -> str:
    nodes = f"{'Node' if len(silent) == 1 else 'Nodes'} {listed(silent, at_most=MAX_NAMED)}"
    is_are = "is" if len(silent) == 1 else "are"
    far = waiting.stall.unacknowledged if waiting.stall is not None else []
    who = f"rank {waiting.rank} on {waiting.node}"
    what = f"{who} has waited in {_operation(waiting)} for more than {_limit(waiting)}"
    if far:
        what = f"nobody acknowledges what {who} sends to {listed(far, at_most=2)}"
    return f"{nodes} {is_are} out of contact, and {what}."


def cut(ranks: Sequence[RankView], stuck: RankView) -> str:
    nodes = listed(sorted({view.node for view in ranks}), at_most=MAX_NAMED)
    far = listed(stuck.stall.unacknowledged, at_most=2) if stuck.stall is not None else "the others"
    where = f"Every rank waits in a collective, rank {stuck.rank} on {stuck.node} in {_operation(stuck)}{_place(stuck)}"
    return f"{where}, and nobody acknowledges what it sends to {far}: the network between {nodes} is cut."


def state(view: RankView) -> str:
    """Return in a few words what the rank does."""
    stall = view.stall
    if stall is None:
        return "makes progress"
    if stall.is_stopped:
        return "is stopped by a signal, so that it cannot say where it is"
    if stall.collective is not None:
        return f"waits in {stall.collective.operation}{f' at {stall.line}' if stall.line else ''}"
    return f"is at {stall.line}" if stall.line else "shows neither output nor use of the processor"


def stacks_text(stacks: Sequence[RankStack]) -> str:
    """Return where each rank stands, the most recent call first."""
    return "\n\n".join(f"Rank {one.rank} on {one.node} {one.state}.\n{one.stack}".rstrip() for one in stacks)


def _who(ranks: Sequence[RankView]) -> str:
    if len(ranks) == 1:
        return f"Rank {ranks[0].rank} on {ranks[0].node}"
    nodes = sorted({view.node for view in ranks})
    return f"{_ranks(ranks).capitalize()} on {listed(nodes[:MAX_NAMED])}"


def _ranks(ranks: Sequence[RankView]) -> str:
    numbers = [str(view.rank) for view in ranks]
    return f"rank {numbers[0]}" if len(numbers) == 1 else f"ranks {listed(numbers, at_most=MAX_NAMED)}"


def _wait(ranks: Sequence[RankView]) -> str:
    return "waits" if len(ranks) == 1 else "wait"


def _awaited(waiting: Sequence[RankView], it: str) -> str:
    if not waiting:
        return ""
    return f"; {_ranks(waiting)} {_wait(waiting)} for {it} in {_operation(waiting[0])}{_place(waiting[0])}"


def _operation(view: RankView) -> str:
    return view.collective.operation if view.collective is not None else "a collective"


def _place(view: RankView) -> str:
    return f" ({view.stall.line})" if view.stall is not None and view.stall.line else ""


def _at_step(view: RankView) -> str:
    return f" at step {view.stall.step:,}" if view.stall is not None and view.stall.step is not None else ""


def _limit(view: RankView) -> str:
    return words_of(view.stall.limit_s) if view.stall is not None else "some time"


def _where(view: RankView) -> str:
    stall = view.stall
    if stall is None:
        return ""
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
