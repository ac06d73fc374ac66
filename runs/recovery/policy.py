"""Decision after a failed attempt: a pure function of the failures so far."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from runs.values.columns import AttemptFailure, LeftOutNode
from trainyard.contract.causes import CauseClass
from trainyard.spec.sections.restarts import RESTARTED_ONCE, RestartRules
from trainyard.spec.values.durations import LONGEST_PAUSE_S, words_of

LEFT_OUT_S = 900.0  # a node may have been repaired by then, and is tried again
FAULTS_TO_AVOID = 2  # failures on one node after which others come first
# Failures that may have to do with the machine on which they happened.
OF_NODES = frozenset(
    {
        CauseClass.KILLED,
        CauseClass.PROCESS_LOST,
        CauseClass.NODE_LOST,
        CauseClass.NETWORK,
        CauseClass.HANG,
        CauseClass.GPU_FAULT,
        CauseClass.DISK_FULL,
        CauseClass.STORAGE,
        CauseClass.NODE_UNFIT,
        CauseClass.OUT_OF_MEMORY,
        CauseClass.GPU_OUT_OF_MEMORY,
    }
)

# Machines that were only lent were taken back: that is no fault of the run, however often it happens.
NOT_COUNTED = frozenset({CauseClass.PREEMPTED})


@dataclass(frozen=True)
class Restart:
    """Start again after ``pause_s``. ``number`` counts the restarts in a row, this one included."""

    number: int
    pause_s: float
    left_out: tuple[LeftOutNode, ...] = ()


@dataclass(frozen=True)
class Stop:
    """Stay ended. ``sentence`` says why where a restart was possible; else the failure itself says enough."""

    sentence: str = ""


def decide(rules: RestartRules, failures: Sequence[AttemptFailure], now: float) -> Restart | Stop:
    """Return what follows from the last of the run's ``failures``, which come oldest first and are those since a person
    started it. ``now``: Unix seconds."""
    last, before = failures[-1], failures[:-1]
    action = rules.action_on(last.cause)
    if rules.max == 0 or action == "stop":
        return Stop()
    if last.signature and any((one.signature, one.step) == (last.signature, last.step) for one in before):
        where = "before its first step" if last.step is None else f"in step {last.step:,}"
        return Stop(f"It failed in the same way {where} before, so it is not restarted.")
    counted = [one for one in before if _counts(one, last, rules, now)]
    is_once = last.cause in RESTARTED_ONCE and last.cause not in rules.on
    if is_once and any(one.cause == last.cause for one in counted):
        return Stop(f"It was restarted after {last.cause} once before, so it is not restarted again.")
    if len(counted) >= rules.max and last.cause not in NOT_COUNTED:
        times = "once" if rules.max == 1 else f"{rules.max} times"
        return Stop(f"It was restarted {times} within {words_of(rules.window_s)} and kept no newer checkpoint.")
    return Restart(
        number=len(counted) + 1,
        pause_s=0.0 if last.cause in NOT_COUNTED else _pause_s(len(counted), rules.backoff_s),
        left_out=tuple(_left_out(rules, failures, now)),
    )


def _counts(one: AttemptFailure, last: AttemptFailure, rules: RestartRules, now: float) -> bool:
    """Return whether the restart after this failure still counts: it is recent, and no newer state was kept."""
    newest, former = last.newest_step, one.newest_step
    has_got_on = newest is not None and (former is None or newest > former)
    return now - one.at <= rules.window_s and not has_got_on and one.cause not in NOT_COUNTED


def _pause_s(num_before: int, backoff_s: float) -> float:
    """The first restart follows at once; then the pause doubles."""
    return min(LONGEST_PAUSE_S, backoff_s * 2.0 ** min(num_before - 1, 30)) if num_before else 0.0


def _left_out(rules: RestartRules, failures: Sequence[AttemptFailure], now: float) -> list[LeftOutNode]:
    recent = [one for one in failures if one.node and now - one.at < LEFT_OUT_S]
    faults = Counter(one.node for one in recent if one.cause in OF_NODES)
    found: dict[str, LeftOutNode] = {}
    for one in recent:
        node, name, until = one.node, one.node_name, one.at + LEFT_OUT_S
        if rules.action_on(one.cause) == "exclude-node":
            why = f"{one.cause} there"
            found[node] = LeftOutNode(node=node, name=name, why=why, until=until, cause=str(one.cause))
        elif faults[node] >= FAULTS_TO_AVOID and not (node in found and found[node].is_excluded):
            why = f"{faults[node]} failures there"
            found[node] = LeftOutNode(node=node, name=name, why=why, until=until, is_excluded=False)
    by_rules = [one for failure in failures if now - failure.at < LEFT_OUT_S for one in failure.left_out]
    found |= {one.node: one for one in by_rules if one.node not in found or not found[one.node].is_excluded}
    return list(found.values())
