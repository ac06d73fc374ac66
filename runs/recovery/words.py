"""Sentences of restarts for a run's history and page. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from runs.recovery.policy import NOT_COUNTED
from runs.values.recoveries import LeftOutNode, Recovery
from trainyard.contract.causes import CauseClass
from trainyard.spec.values.durations import words_of


def restart_sentence(recovery: Recovery, *, has_room: bool = True) -> str:
    """Say which restart follows, when, from where, and without which nodes. ``has_room``: the others can take it."""
    pause_s = recovery.due_at - recovery.failed_at
    when = "follows at once" if pause_s <= 0 else f"follows after a pause of {words_of(pause_s)}"
    when = when if has_room else "follows as soon as it gets other nodes, or this one again"
    parts = [f"{_which(recovery)} {when}, {_from_where(recovery)}."]
    return " ".join([*parts, *left_out_sentences(recovery.left_out)])


def _which(recovery: Recovery) -> str:
    if recovery.cause in NOT_COUNTED:
        return "A restart that does not count"
    return f"Restart {recovery.number} of {recovery.max}"


def _from_where(recovery: Recovery) -> str:
    lost = num_lost(recovery)
    words = f": {lost:,} {'step is' if lost == 1 else 'steps are'} trained again" if lost else ""
    if recovery.from_step is None:
        return f"from the start{words}"
    where = " in memory" if recovery.source == "memory" else ""
    return f"from step {recovery.from_step:,}{where}{words}"


def num_lost(recovery: Recovery) -> int:
    """Return how many steps were done after the checkpoint."""
    return max(0, (recovery.step or 0) - (recovery.from_step or 0))


def left_out_sentences(left_out: Sequence[LeftOutNode]) -> list[str]:
    return [
        f"{one.name} is {'left out' if one.is_excluded else 'taken only where there is no other'} until "
        f"{'its disk has room, at the latest until ' if one.cause == CauseClass.DISK_FULL else ''}"
        f"{datetime.fromtimestamp(one.until, UTC):%H:%M} UTC ({one.why})."
        for one in left_out
    ]


def waiting_sentence(recovery: Recovery, why: str) -> str:
    if recovery.number == 0:  # it did not fail: it is placed anew
        return why
    return f"{_which(recovery)}: {why[:1].lower()}{why[1:]}"


def back_sentence(recovery: Recovery, took_s: float) -> str:
    """Say that the run is where it was before the failure."""
    lost = num_lost(recovery)
    again = f"{lost:,} {'step was' if lost == 1 else 'steps were'} trained again" if lost else "no step was lost"
    return f"The first new step came {words_of(took_s)} after the failure; {again}."
