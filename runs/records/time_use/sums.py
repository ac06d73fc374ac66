"""Time of the runs of a project or a cluster by use: ended runs have a row each, live ones are read."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import pairwise

from django.core.cache import cache
from django.core.exceptions import EmptyResultSet
from django.db.models import Case, F, Q, QuerySet, Sum, When, Window, prefetch_related_objects
from django.db.models.functions import RowNumber

from runs.causes import STOOD_STILL
from runs.models import Attempt, Event, Run, RunTime
from runs.records.metrics.models import Checkpoint, Series, Telemetry
from runs.records.points import read
from runs.records.time_use.split import NAMES, AttemptOutcome, AttemptSpan, StatusSpan, TimeUse, time_use
from runs.values.status import LIVE, Phase, Status
from trainyard.grouping import grouped

LOSS, STEP_TIME = "train/loss", "train/step_time_s"
SETTLED_S = 60.0  # behind its end nothing of an attempt is on its way any more
GIVEN_UP, PLACED_ANEW, PREEMPTED = "given-up", "placed-anew", "preempted"
WINDOW, WEEK = timedelta(days=30), timedelta(days=7)
LATELY = timedelta(hours=1)  # within which control writes the row of a run that has ended
PER_ROUND = 50
KEPT_S = 60
MAX_LIVE = 200  # whose time is read for a sum: the newest


def record_ended(now: datetime) -> None:
    """Write the rows of runs that have ended lately. One that was restarted since gets another."""
    ended = Run.objects.filter(ended_at__gte=now - LATELY, ended_at__isnull=False, local_id=None)
    is_old = Q(time=None) | ~Q(time__ended_at=F("ended_at"))
    runs = list(ended.filter(is_old).defer("spec", "estimate").order_by("ended_at", "pk")[:PER_ROUND])
    if not runs:
        return
    found = times_of(runs, now)
    for run in runs:
        assert run.ended_at is not None
        RunTime.objects.update_or_create(run=run, defaults={"ended_at": run.ended_at, **found[run.pk].by_name()})


def times_written(runs: Sequence[Run]) -> dict[str, TimeUse]:
    """Return where the time of each run went that has ended and has its row: one query, which a list can afford."""
    rows = {row.run_id: row for row in RunTime.objects.filter(run__in=[run.pk for run in runs if run.ended_at])}
    current = {run.pk: rows[run.pk] for run in runs if run.pk in rows and rows[run.pk].ended_at == run.ended_at}
    return {pk: TimeUse(**{name: getattr(row, name) for name in NAMES}) for pk, row in current.items()}


def times_shown(runs: Sequence[Run], now: datetime) -> dict[str, TimeUse]:
    """Return where the time of each run went: of an ended one what was written, else what is known now."""
    known = times_written(runs)
    return known | times_of([run for run in runs if run.pk not in known], now)


def time_of_all(runs: QuerySet[Run], now: datetime, window: timedelta | None = None) -> TimeUse:
    """Return the sum over the runs that have an attempt and that live, or ended within the window (WINDOW).

    It is kept for KEPT_S: pages that are fetched again with every change of a node show it.
    """
    try:
        which = runs.order_by().values("pk").query  # without columns and joins the text is made in a tenth of the time
        question = f"{int(now.timestamp() // KEPT_S)} {window or WINDOW} {which}"
    except EmptyResultSet:  # it selects none, whatever is stored: such a query has no text
        return TimeUse()
    key = f"time-of-all:{hashlib.sha256(question.encode()).hexdigest()}"
    kept: dict[str, float] | None = cache.get(key)
    if kept is None:
        kept = _sum(runs, now - (window or WINDOW), now).by_name()
        cache.set(key, kept, KEPT_S)
    return TimeUse(**kept)


def _sum(runs: QuerySet[Run], since: datetime, now: datetime) -> TimeUse:
    ended = runs.filter(ended_at__gte=since, ended_at__isnull=False)
    sums = ended.order_by().aggregate(**{name: Sum(f"time__{name}") for name in NAMES})
    live = runs.filter(status__in=list(LIVE), ended_at=None, local_id=None, fence__gt=0).order_by("-created_at", "-pk")
    parts = times_of(list(live[:MAX_LIVE]), now).values()
    return TimeUse(**{name: (sums[name] or 0.0) + sum(getattr(one, name) for one in parts) for name in NAMES})


# The statuses and attempts of runs, read from rows, events and points, as the pure split wants them.


def times_of(runs: Sequence[Run], now: datetime) -> dict[str, TimeUse]:
    """Return where the time of each run went, in few queries for any number of them; nothing of a run that was logged
    elsewhere, of which nobody here knows it."""
    runs = [run for run in runs if not run.is_local]
    ids = [run.pk for run in runs]
    prefetch_related_objects(runs, "attempts__placements__node")
    moves = Event.objects.filter(run__in=ids, data__has_key="to").order_by("at", "id")
    events = grouped((event.run_id, event) for event in moves)
    steps, stalls = _step_series(ids), _stalls(ids)
    telemetry = Telemetry.objects.in_bulk(ids)
    found = {}
    for run in runs:
        own = events.get(run.pk, [])
        spans = _spans(run, own, now)
        reader = _Attempts(run, own, steps.get(run.pk), stalls, telemetry.get(run.pk), now)
        found[run.pk] = time_use(spans, reader.spans())
    return found


def _spans(run: Run, events: Sequence[Event], now: datetime) -> list[StatusSpan]:
    changes = [(Status.QUEUED, run.created_at.timestamp())]
    changes += [(Status(event.data["to"]), max(event.at.timestamp(), changes[0][1])) for event in events]
    end = max(now.timestamp(), changes[-1][1])
    return [
        StatusSpan(status, start, until)
        for (status, start), (_, until) in pairwise([*changes, (Status(run.status), end)])
    ]


def _step_series(run_ids: Sequence[str]) -> dict[str, Series]:
    """Return for each run the series whose points say when its steps were: the loss, else the longest without labels
    that is not of a machine."""
    rows = Series.objects.filter(run_id__in=run_ids, labels_key="{}").exclude(name__startswith="system/")
    order = (Case(When(name=LOSS, then=0), default=1), "-count", "name")
    first = rows.annotate(place=Window(RowNumber(), partition_by="run_id", order_by=order)).filter(place=1)
    return {row.run_id: row for row in first}


def first_step_at(run: Run, fence: int) -> float | None:
    """Return when the attempt with that fence began its first step, in Unix seconds; None where it has made none."""
    series, key = _step_series([run.pk]).get(run.pk), str(fence)
    return _begun_at(run.pk, series.name, fence, series.firsts[key]) if series and key in series.firsts else None


def _stalls(run_ids: Sequence[str]) -> dict[tuple[str, int], float]:
    rows = Checkpoint.objects.filter(run_id__in=run_ids, stall_s__gt=0).values_list("run_id", "fence")
    return {(run_id, fence): stall_s for run_id, fence, stall_s in rows.annotate(Sum("stall_s"))}


class _Attempts:
    def __init__(
        self,
        run: Run,
        events: Sequence[Event],
        series: Series | None,
        stalls: Mapping[tuple[str, int], float],
        telemetry: Telemetry | None,
        now: datetime,
    ) -> None:
        self._run, self._stalls, self._telemetry, self._now = run, stalls, telemetry, now
        self._series = series.name if series is not None and run.counts_steps else ""
        self._firsts = {int(fence): first for fence, first in series.firsts.items()} if series is not None else {}
        self._ends: dict[str, Event] = {}  # by attempt: the last status that it led to
        self._running_at: dict[str, float] = {}
        for event in events:
            if event.attempt_id is not None:
                self._ends[event.attempt_id] = event
                if event.data["to"] == Status.RUNNING:
                    self._running_at.setdefault(event.attempt_id, event.at.timestamp())

    def spans(self) -> list[AttemptSpan]:
        made, reached = [], None  # the furthest step so far
        for attempt in self._run.attempts.all():
            span, last_step = self._span(attempt, reached)
            made.append(span)
            reached = last_step if reached is None else max(reached, last_step if last_step is not None else reached)
        return made

    def _span(self, attempt: Attempt, reached: int | None) -> tuple[AttemptSpan, int | None]:
        outcome = self._outcome(attempt)
        first_at, (last_step, last_at) = self._first_step_at(attempt), self._last_step(attempt)
        span = AttemptSpan(
            start=attempt.created_at.timestamp(),
            end=(attempt.ended_at or self._now).timestamp(),
            outcome=outcome,
            running_at=self._running_at.get(attempt.pk),
            first_step_at=first_at,
            last_step_at=last_at,
            repeated_until=self._repeated_until(attempt, reached, last_step, last_at),
            broke_at=_broke_at(attempt, last_at) if outcome == AttemptOutcome.FAILED else None,
            over_at=max(_rank_ends(attempt), default=None) if outcome == AttemptOutcome.FINISHED else None,
            stall_s=self._stalls.get((self._run.pk, attempt.fence), 0.0),
            counts_steps=self._run.steps is not None and self._run.counts_steps,
            is_silent=attempt.ended_at is None and attempt.contact_lost_at is not None,
        )
        return span, last_step

    def _outcome(self, attempt: Attempt) -> AttemptOutcome:
        if attempt.ended_at is None:
            return AttemptOutcome.LIVE
        end = self._ends.get(attempt.pk)
        to = end.data["to"] if end is not None else ""
        if to == Status.SUCCEEDED:
            return AttemptOutcome.FINISHED
        if to in (Status.PAUSED, Status.CANCELLED) and end is not None and end.code != GIVEN_UP:
            return AttemptOutcome.ASKED
        if attempt.is_replaced and end is not None and end.code == PLACED_ANEW:
            return AttemptOutcome.ASKED
        if to == Status.RESIZING:
            return AttemptOutcome.RESIZED
        if to == Status.QUEUED and end is not None and end.code == PREEMPTED:
            return AttemptOutcome.ASKED
        if attempt.go is None and to == Status.QUEUED:
            return AttemptOutcome.CALLED_OFF
        return AttemptOutcome.FAILED

    def _first_step_at(self, attempt: Attempt) -> float | None:
        first = self._firsts.get(attempt.fence)
        if not self._series or first is None:
            return None
        return _begun_at(self._run.pk, self._series, attempt.fence, first)

    def _last_step(self, attempt: Attempt) -> tuple[int | None, float | None]:
        known = self._telemetry
        if not self._series or attempt.fence not in self._firsts:
            return None, None
        if known is not None and known.attempt == attempt.fence:
            return known.step, known.step_at
        if attempt.ended_at is not None and (self._now - attempt.ended_at).total_seconds() > SETTLED_S:
            return _last_point(self._run.pk, self._series, attempt.fence)
        return _last_point.__wrapped__(self._run.pk, self._series, attempt.fence)

    def _repeated_until(
        self, attempt: Attempt, reached: int | None, last_step: int | None, last_at: float | None
    ) -> float | None:
        """Return when the attempt was at the step that an earlier one had reached; its last step where it was not."""
        first = self._firsts.get(attempt.fence)
        if reached is None or first is None or first > reached or last_step is None:
            return None
        if last_step <= reached:
            return last_at
        return _time_of(self._run.pk, self._series, attempt.fence, reached)


def _rank_ends(attempt: Attempt) -> list[float]:
    """Return when its ranks ended, by the nodes' clocks."""
    reports = [one.reported for one in attempt.placements.all() if one.phase == Phase.ENDED]
    return [rank.ended_at for report in reports for rank in report.ranks if rank.ended_at]


def _broke_at(attempt: Attempt, last_at: float | None) -> float | None:
    """Return when the first of its ranks ended, by the nodes' clocks; of ranks that stood still, when the last step did
    (``last_at``)."""
    cause = attempt.known_cause
    if cause is not None and cause.cause_class in STOOD_STILL and last_at is not None:
        return last_at
    return min(_rank_ends(attempt), default=None)


@lru_cache(maxsize=4096)
def _time_of(run_id: str, series: str, fence: int, step: int) -> float | None:
    """Return when the attempt logged the newest step up to this one. What it has logged never changes."""
    points = _points(run_id, series, fence, (step, step)) or _points(run_id, series, fence, (None, step))
    return points[-1][1] if points else None


@lru_cache(maxsize=4096)
def _begun_at(run_id: str, series: str, fence: int, step: int) -> float | None:
    """Return when that step began: when it was logged, less what it took."""
    points = _points(run_id, series, fence, (step, step))
    if not points:
        return None
    took = _points(run_id, STEP_TIME, fence, (step, step))
    return points[0][1] - (took[0][2] if took else 0.0)


@lru_cache(maxsize=4096)
def _last_point(run_id: str, series: str, fence: int) -> tuple[int | None, float | None]:
    points = _points(run_id, series, fence, (None, None))
    return (points[-1][0], points[-1][1]) if points else (None, None)


def _points(
    run_id: str, series: str, fence: int, window: tuple[int | None, int | None]
) -> list[tuple[int, float, float]]:
    """Return step, time and value of points of the attempt, in their order; of a long window only some, the last among
    them."""
    _, curves = read.curves({run_id: window}, [series], {}, points=2, attempts="all")
    found = []
    for curve in curves:
        if curve.attempt == fence and not curve.labels:
            values = curve.columns["value" if curve.kind == "raw" else "last"]
            found += list(zip(curve.columns["step"], curve.columns["time"], values, strict=True))
    return sorted((int(step), float(at), float(value)) for step, at, value in found)
