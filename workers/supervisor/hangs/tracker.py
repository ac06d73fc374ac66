"""Progress of one rank, or its lack: rules on plain values, with the time passed in."""

from collections import deque
from dataclasses import dataclass
from statistics import median

from trainyard.contract.reports import RankStall
from trainyard.spec.sections.hangs import HangRules
from workers.machine.processes import STOPPED_AFTER_S, STOPPED_LIMIT_S, UNSEEN_S
from workers.progress.description import Description, described
from workers.progress.marker import Marks

LEAST_S = 60.0  # of auto
MEDIANS = 10
PATIENT_S = 600.0  # at least: before the first step, and in what stands beside the steps
SUSPECT_S = 5.0  # a rank without progress for so long is reported, with where it stands
PATIENT = frozenset(("data", "checkpoint", "validation", "compilation"))
WINDOW = 50


@dataclass(frozen=True)
class Sample:
    """A look at one rank. ``is_alive``: it has printed or worked since the last look."""

    now: float  # monotonic
    at: float  # Unix seconds
    marks: Marks
    is_stopped: bool = False
    is_alive: bool = False


@dataclass(frozen=True)
class RankTraits:
    """Facts about the run's ranks in general."""

    counts_steps: bool  # a recipe that trains
    is_gang: bool  # more than one rank


class Tracker:
    """The history of one rank. ``update`` returns its stall, None while it makes progress."""

    def __init__(self, rules: HangRules, kind: RankTraits, *, now: float) -> None:
        self._rules = rules
        self._kind = kind
        self._looked_at = now
        self._progressed_at = now
        self._first_step: int | None = None
        self._last: Marks | None = None
        self._moved_at = now  # the last step, or the last collective of a script
        self._pace: deque[float] = deque(maxlen=WINDOW)  # seconds
        self._stopped_at: float | None = None
        self._phase = ""
        self._phase_began_at = now
        self._longest: dict[str, float] = {}

    def update(self, sample: Sample) -> RankStall | None:
        self._forgive(sample.now)
        description = described(sample.marks.text)
        self._follow_phase("compilation" if description.is_compiling else sample.marks.phase, sample.now)
        if self._has_progressed(sample, description):
            self._progressed_at = sample.now
        self._last = sample.marks
        if sample.is_stopped:
            return self._stopped(sample, description)
        if self._stopped_at is not None:
            self._stopped_at, self._progressed_at = None, sample.now
        limit_s = self.limit_s()
        age_s = sample.now - self._progressed_at
        if limit_s is None or age_s < self._suspect_s(limit_s):
            return None
        return self._stall(sample, description, limit_s, self._progressed_at)

    def limit_s(self) -> float | None:
        """Return after how long without progress the rank counts as hung; None: by silence alone never."""
        if self._phase in PATIENT:
            return max(PATIENT_S, MEDIANS * self._longest.get(self._phase, 0.0))
        if self._is_started():
            usual_s = median(self._pace) if self._pace else 0.0
            return self._rules.after_s or max(LEAST_S, MEDIANS * usual_s)
        if self._kind.counts_steps:
            return max(PATIENT_S, self._rules.after_s or 0.0)
        # Of a script nothing is known but that it neither prints nor computes: a single process may wait for work.
        return self._rules.after_s or (PATIENT_S if self._kind.is_gang else None)

    def _is_started(self) -> bool:
        """Return whether the run's own pace is known: after its first step, or a script's first collectives."""
        return bool(self._pace)

    def _suspect_s(self, limit_s: float) -> float:
        if self._phase in PATIENT or not self._is_started():
            return limit_s / 2
        return min(limit_s / 2, max(SUSPECT_S, 3 * median(self._pace)))

    def _forgive(self, now: float) -> None:
        """Count no time in which this process was not running: a suspended machine, or one that swaps."""
        if (unseen_s := now - self._looked_at) > UNSEEN_S:
            self._progressed_at += unseen_s
            self._phase_began_at += unseen_s
            self._moved_at += unseen_s
            if self._stopped_at is not None:
                self._stopped_at += unseen_s
        self._looked_at = now

    def _follow_phase(self, phase: str, now: float) -> None:
        if phase == self._phase:
            return
        if self._phase in PATIENT:
            took_s = now - self._phase_began_at
            self._longest[self._phase] = max(took_s, self._longest.get(self._phase, 0.0))
        if self._phase in PATIENT or phase in PATIENT:
            self._progressed_at = self._moved_at = now
        self._phase, self._phase_began_at = phase, now

    def _has_progressed(self, sample: Sample, description: Description) -> bool:
        before, marks = self._last, sample.marks
        if before is None:
            return True
        has_entered = marks.entered != before.entered
        if self._kind.counts_steps:
            if marks.step != before.step:
                self._count_step(marks.step, before.step, sample.now)
                return True
            if self._is_started() and self._phase not in PATIENT:
                return False
        elif has_entered:
            self._count_pace(sample.now, marks.entered - before.entered)
        # A wait for other ranks may compute (NCCL's does), and it is no progress.
        return has_entered or (sample.is_alive and description.collective is None)

    def _count_step(self, step: int, before: int, now: float) -> None:
        if self._first_step is None:
            self._first_step = step
        if step > self._first_step:
            self._count_pace(now, step - max(before, self._first_step))
        self._moved_at = now

    def _count_pace(self, now: float, num: int) -> None:
        self._pace.append((now - self._moved_at) / max(1, num))
        self._moved_at = now

    def _stopped(self, sample: Sample, description: Description) -> RankStall | None:
        if self._stopped_at is None:
            self._stopped_at = sample.now
        if sample.now - self._stopped_at < STOPPED_AFTER_S:
            return None
        limit_s = min(self._rules.after_s or STOPPED_LIMIT_S, STOPPED_LIMIT_S)
        return self._stall(sample, description, limit_s, self._stopped_at)

    def _stall(self, sample: Sample, description: Description, limit_s: float, since: float) -> RankStall:
        age_s = sample.now - since
        return RankStall(
            since=round(sample.at - age_s, 1),
            limit_s=limit_s,
            is_over=age_s >= limit_s,
            is_stopped=sample.is_stopped,
            step=sample.marks.step if self._kind.counts_steps and self._first_step is not None else None,
            phase=self._phase,
            collective=description.collective,
            entered=description.entered,
            line=description.line[:200],
            stack=description.stack,
        )
