"""Time of a run by use: a pure function of its statuses and its attempts. The parts add up to the wall time.

The wall time is what passed while the run was not over: between an end and a restart by a person nothing is counted.
Steps that are trained again after a restart count as recomputed in the attempt that trains them again.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple, cast

from runs.values.status import FINAL, Status
from trainyard.contract.facts import TimeDocument

REPORTED_WITHIN_S = 5.0  # an end that is known by then was reported as ends are: nobody waited for its detection


class AttemptOutcome(StrEnum):
    LIVE = "live"
    FINISHED = "finished"
    ASKED = "asked"  # a person, or the time limit, had its ranks save and end
    RESIZED = "resized"  # its ranks saved and ended, to go on at once on other nodes
    FAILED = "failed"
    CALLED_OFF = "called-off"  # it ended before go: nothing of it ran


class TimeUse(NamedTuple):
    """Seconds. ``restart_s`` is from a failure that control knows of, or from the end of an attempt that is resized, to
    the first step of the next attempt."""

    queued_s: float = 0.0
    starting_s: float = 0.0
    productive_s: float = 0.0
    recomputed_s: float = 0.0
    checkpoint_s: float = 0.0
    detection_s: float = 0.0
    restart_s: float = 0.0
    paused_s: float = 0.0

    @property
    def total_s(self) -> float:
        return sum(self.by_name().values())

    def by_name(self) -> dict[str, float]:
        return {name: float(getattr(self, name)) for name in NAMES}

    @property
    def goodput(self) -> float | None:
        """The productive share of all the time; None where no time has passed."""
        return self.productive_s / self.total_s if self.total_s > 0 else None

    def as_document(self) -> TimeDocument:
        goodput = None if self.goodput is None else round(self.goodput, 6)
        return cast(TimeDocument, {**self.by_name(), "total_s": self.total_s, "goodput": goodput})


NAMES = TimeUse._fields


class StatusSpan(NamedTuple):
    """The run had this status from ``start`` to ``end``, in Unix seconds."""

    status: Status
    start: float
    end: float


class AttemptSpan(NamedTuple):
    """An attempt. Moments are Unix seconds, None where the thing did not happen or nobody knows when."""

    start: float
    end: float  # of a live one: now
    outcome: AttemptOutcome
    running_at: float | None = None  # its ranks run
    first_step_at: float | None = None  # its first step began
    last_step_at: float | None = None  # its last step so far ended
    repeated_until: float | None = None  # until then it trained steps that an earlier attempt had trained
    broke_at: float | None = None  # of a failed one: the first rank ended
    over_at: float | None = None  # of one that finished: the last rank ended
    stall_s: float = 0.0  # for which its steps waited for checkpoints
    counts_steps: bool = True  # whether its ranks are known to log steps; else they are productive once they run
    is_last: bool = False  # no other attempt follows
    is_silent: bool = False  # it is live and out of contact


class TimePiece(NamedTuple):
    """A stretch of an attempt that went to one part."""

    name: str
    start: float
    end: float


Sums = dict[str, float]  # seconds by part


def time_use(spans: Sequence[StatusSpan], attempts: Sequence[AttemptSpan]) -> TimeUse:
    """Return where the time of these statuses went; both are in the order of time."""
    sums = dict.fromkeys(NAMES, 0.0)
    kinds = list(_with_recovery(spans, attempts))
    for span in spans:
        if span.status in FINAL:
            continue
        at, is_recovering, tail = span.start, False, "queued_s"
        for attempt, is_restart, follows_failure in kinds:
            if attempt.start >= span.end:
                break
            if attempt.end > span.start:
                start, end = max(span.start, attempt.start), min(span.end, attempt.end)
                sums[_between(span.status, is_recovering, tail)] += max(0.0, start - at)
                _add_attempt(sums, attempt, is_restart, start, end)
                at = max(at, end)
            is_recovering, tail = follows_failure, _pieces(attempt, is_restart=False)[-1].name
        sums[_between(span.status, is_recovering, tail)] += max(0.0, span.end - at)
    return TimeUse(**sums)


def _with_recovery(
    spans: Sequence[StatusSpan], attempts: Sequence[AttemptSpan]
) -> Iterator[tuple[AttemptSpan, bool, bool]]:
    """Yield each attempt, whether it replaces one that failed, and whether the wait behind it is one for a restart. A
    run that was over and that a person restarted waits in line like any other."""
    is_after_failure = False
    for number, attempt in enumerate(attempts):
        is_restart = is_after_failure
        attempt = attempt._replace(is_last=number == len(attempts) - 1)
        if attempt.outcome != AttemptOutcome.CALLED_OFF:
            is_after_failure = attempt.outcome in (AttemptOutcome.FAILED, AttemptOutcome.RESIZED)
        was_over = any(one.status in FINAL and one.start >= attempt.start for one in spans)
        yield attempt, is_restart, is_after_failure and not was_over


def _between(status: Status, is_recovering: bool, tail: str) -> str:
    """Return what time without an attempt went to."""
    if status == Status.PAUSED:
        return "paused_s"
    if is_recovering or status in (Status.RECOVERING, Status.RESIZING):
        return "restart_s"
    return "queued_s" if status == Status.QUEUED else tail


def _add_attempt(sums: Sums, attempt: AttemptSpan, is_restart: bool, start: float, end: float) -> None:
    """Add what lies between ``start`` and ``end`` of the attempt; of stalls the share of its productive time there."""
    productive_s = in_all_s = 0.0
    for piece in _pieces(attempt, is_restart):
        first, last = max(start, piece.start), min(end, piece.end)
        sums[piece.name] += max(0.0, last - first)
        if piece.name == "productive_s":
            productive_s += max(0.0, last - first)
            in_all_s += piece.end - piece.start
    if in_all_s > 0:
        stalled_s = min(attempt.stall_s, in_all_s) * productive_s / in_all_s
        sums["productive_s"] -= stalled_s
        sums["checkpoint_s"] += stalled_s


def _pieces(attempt: AttemptSpan, is_restart: bool) -> list[TimePiece]:
    """Cut the attempt into its parts, without gaps, from its start to its end."""
    marks: list[tuple[str, float]] = []  # a part, and when it was over
    start_name = "restart_s" if is_restart else "starting_s"
    tail, end, over_at = "productive_s", attempt.end, attempt.over_at
    if attempt.first_step_at is not None:
        last = attempt.last_step_at if attempt.last_step_at is not None else attempt.first_step_at
        repeated = attempt.repeated_until if attempt.repeated_until is not None else attempt.first_step_at
        marks = [(start_name, attempt.first_step_at), ("recomputed_s", repeated), ("productive_s", last)]
        if attempt.outcome in (AttemptOutcome.ASKED, AttemptOutcome.RESIZED):
            tail = "checkpoint_s"
    elif attempt.running_at is not None and not attempt.counts_steps:
        marks = [(start_name, attempt.running_at)]
        if attempt.outcome == AttemptOutcome.FAILED:
            marks.append(("productive_s", attempt.broke_at if attempt.broke_at is not None else end))
    else:
        tail = start_name
        if attempt.outcome == AttemptOutcome.FAILED:
            marks = [(start_name, attempt.broke_at if attempt.broke_at is not None else end)]
    if attempt.outcome == AttemptOutcome.FAILED:
        if attempt.first_step_at is not None and attempt.broke_at is not None:
            # The step that broke off is trained again, where somebody does.
            marks.append(("productive_s" if attempt.is_last else "recomputed_s", attempt.broke_at))
        tail = "detection_s"
    elif attempt.outcome == AttemptOutcome.FINISHED and over_at is not None and end - over_at > REPORTED_WITHIN_S:
        marks.append(("productive_s", over_at))
        tail = "detection_s"
    elif attempt.is_silent and attempt.first_step_at is not None:
        tail = "detection_s"
    pieces, at = [], attempt.start
    for name, until in [*marks, (tail, end)]:
        until = min(max(at, until), end)
        pieces.append(TimePiece(name, at, until))
        at = until
    return pieces
