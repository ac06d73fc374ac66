"""Watching live runs once a second, in a thread of control's own: reading points must not hold up the tick."""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from statistics import median
from typing import Literal, NamedTuple

import structlog
from django.db import transaction
from redis.exceptions import RedisError

from runs.life import replacing, rewinding, stopping
from runs.life.watching import idleness
from runs.life.watching.slow_ranks import SlowRankWatch, alarm_sentence, who
from runs.models import Attempt
from runs.models.runs import StaleStatus
from runs.records.metrics.codec import word_of
from runs.records.metrics.models import Series, Telemetry
from runs.records.points import read
from runs.records.points.read import Curve
from runs.serving.clock import Clock
from runs.values.columns import MetricAlarm, SlowRank
from runs.values.refused import Refused
from runs.values.status import Status, TransitionError
from trainyard.contract.base import JsonObject, to_builtins
from trainyard.spec import SpecError
from trainyard.spec.sections.hangs import Stragglers
from trainyard.spec.sections.watch import WatchRule, rules_of

ENOUGH = 20  # values before one can be a spike
LEAST_DEVIATION = 0.05  # of the median's size
TO_SIGMA = 1.4826
MOST_ALARMS = 20  # of an attempt
MOST_POINTS = 20_000  # of a series in one look
AT_FIRST = 1_000  # steps that are looked at when an attempt is seen for the first time
WRITE_EVERY_S = 5.0
NAMES_EVERY_S = 5.0
WILD = "*?["

Key = tuple[int, str, str]  # number of the rule, name, labels
log = structlog.get_logger(__name__)

EVERY_S = 1.0
LOCK_S = 10
ALARMS, SLOW, IDLE = "alarms", "slow", "idle"
LEAST_REST_S = {ALARMS: 0.5, SLOW: 2.0, IDLE: 5.0}  # between two looks at an attempt
SHARE = 20  # of what a look takes: so long it rests at least, so that many runs do not fill a processor


class Watcher:
    """State between two rounds: nothing that rows do not say too."""

    def __init__(self) -> None:
        self._slow = SlowRankWatch()
        self._alarms = AlarmWatch()
        self._cursors: dict[str, int] = {}  # by attempt: the batches that were looked at
        self._due_at: dict[tuple[str, str], float] = {}  # by attempt and what is looked for

    def round(self, now: datetime) -> None:
        """Look at each live attempt that has new points."""
        live = Attempt.objects.filter(ended_at=None, settling_at=None, run__status=Status.RUNNING)
        live = live.filter(go__isnull=False, stop__isnull=True).select_related("run__cluster", "run__project")
        attempts = list(live)
        known = Telemetry.objects.in_bulk([one.run_id for one in attempts])
        for attempt in attempts:
            telemetry = known.get(attempt.run_id)
            if telemetry is not None and telemetry.cursor != self._cursors.get(attempt.pk):
                self._look(attempt, telemetry, now)
            self._guarded(attempt, IDLE, now, partial(idleness.look, attempt, now))
        self._forget({one.pk for one in attempts})

    def _look(self, attempt: Attempt, telemetry: Telemetry, now: datetime) -> None:
        self._cursors[attempt.pk] = telemetry.cursor
        self._guarded(
            attempt, ALARMS, now, lambda: act_on_alarms(attempt, self._alarms.judge(attempt, telemetry, now), now)
        )
        if not attempt.is_replaced:
            self._guarded(
                attempt, SLOW, now, lambda: act_on_slow_ranks(attempt, self._slow.judge(attempt, telemetry, now), now)
            )

    def _guarded(self, attempt: Attempt, what: str, now: datetime, look: Callable[[], None]) -> None:
        """Look for one thing where that is due; one that fails must not keep the others waiting."""
        if now.timestamp() < self._due_at.get((attempt.pk, what), 0.0):
            if what != IDLE:
                self._cursors.pop(attempt.pk, None)  # what has come is looked at later
            return
        began = time.monotonic()
        try:
            look()
        except (RedisError, OSError):
            raise
        except Exception:  # a bug, or points that nobody expected: the other runs are watched all the same
            log.exception("watch.failed", run=attempt.run_id, what=what)
        self._due_at[attempt.pk, what] = now.timestamp() + max(LEAST_REST_S[what], SHARE * (time.monotonic() - began))

    def _forget(self, live: set[str]) -> None:
        self._cursors = {pk: cursor for pk, cursor in self._cursors.items() if pk in live}
        self._due_at = {key: at for key, at in self._due_at.items() if key[0] in live}
        self._slow.forget(live)
        self._alarms.forget(live)


def watch_clock() -> Clock:
    return Clock("watch", Watcher().round, every_s=EVERY_S, lock_s=LOCK_S)


# Effects of a finding, by the run's own rules.


def act_on_slow_ranks(attempt: Attempt, started: Sequence[SlowRank], now: datetime) -> None:
    """Go on without the node of ranks that have just been found slow, where the run's rules say so."""
    if not started or Stragglers.of(attempt.run.spec).action != "exclude-node":
        return
    nodes = {one.node_id for one in started}
    node = next((one.node for one in attempt.placements.all() if one.node_id in nodes), None)
    if node is None:
        return
    try:
        if len(nodes) > 1:
            raise Refused("several", "The slow ranks are on several nodes.")
        replacing.go_on_without(attempt.run, attempt, node, why=f"{who(started)} slow there", actor=None, now=now)
    except Refused as error:
        sentence = f"The run goes on with {node.name}: {error.sentence[:1].lower()}{error.sentence[1:]}"
        attempt.run.record("straggler-kept", sentence, attempt=attempt)
    except (StaleStatus, TransitionError):
        return  # it has ended, or somebody has stopped it


def act_on_alarms(attempt: Attempt, alarms: Sequence["Alarm"], now: datetime) -> None:
    """Do what the rule of the first alarm says that asks for more than a notice."""
    acting = next((one for one in alarms if one.rule.action != "notify"), None)
    if acting is None:
        return
    try:
        if acting.rule.action == "stop":
            words = f"{acting.alarm.sentence} Its rule stops the run: {stopping.what_follows(attempt.run, attempt)}."
            stopping.begin(attempt.run, attempt, why=stopping.RULE, code="stopping", sentence=words, now=now)
        else:
            rewinding.go_back_by_rule(attempt, acting.alarm, acting.rule, now)
    except (Refused, SpecError) as error:
        attempt.run.record("rewind-refused", f"The run goes on and is not sent back: {error}", attempt=attempt)
    except (StaleStatus, TransitionError):
        return  # it has ended, or somebody has stopped it


# Finding values that break a rule, from the stored series to the attempt's row and the run's history.


class Alarm(NamedTuple):
    """A new alarm, and the rule that was broken."""

    rule: WatchRule
    alarm: MetricAlarm


class Watched:
    """State of one watched attempt."""

    def __init__(self, attempt: Attempt) -> None:
        self.rules = rules_of(attempt.run.spec)
        self.series: dict[Key, SeriesWatch] = {}
        self.alarms = attempt.known_alarms
        self.names: list[str] = []
        self.num_series = self.cursor = 0  # those that were looked at, and up to which batch
        self.names_at = self.written_at = 0.0
        self.is_changed = False
        self.looked_at = 0  # the step of the last look
        self.told_many = len(self.alarms) >= MOST_ALARMS


class AlarmWatch:
    """Judges live attempts, as often as it is called."""

    def __init__(self) -> None:
        self._known: dict[str, Watched] = {}

    def judge(self, attempt: Attempt, telemetry: Telemetry, now: datetime) -> list[Alarm]:
        """Write which rules new points break. Returns the new alarms."""
        watched = self._known.setdefault(attempt.pk, Watched(attempt))
        if not watched.rules or telemetry.attempt != attempt.fence or telemetry.step is None:
            return []
        names = self._names(attempt, watched, now)
        if not names:
            return []
        num_series = Series.objects.filter(run_id=attempt.run_id, name__in=names).count()
        if num_series != watched.num_series:  # first points of a new one lie in batches that were looked at for others
            watched.num_series, watched.cursor = num_series, 0
        low = self._first_step(watched, telemetry.step)
        window = {attempt.run_id: (low, None)}
        cursors, curves = read.curves(window, names, points=MOST_POINTS, after=watched.cursor)
        new: list[Alarm] = []
        for curve in curves:
            if curve.attempt == attempt.fence:
                new += self._take(watched, curve)
        watched.cursor = cursors[attempt.run_id]
        if new or (watched.is_changed and now.timestamp() - watched.written_at >= WRITE_EVERY_S):
            self._write(attempt, watched, new, now)
        return new

    def forget(self, live: Iterable[str]) -> None:
        self._known = {pk: self._known[pk] for pk in live if pk in self._known}

    def _names(self, attempt: Attempt, watched: Watched, now: datetime) -> list[str]:
        """Return the metrics that rules are about; those that a pattern fits are looked up now and then."""
        if not any(sign in rule.metric for rule in watched.rules for sign in WILD):
            return [rule.metric for rule in watched.rules]
        if now.timestamp() - watched.names_at >= NAMES_EVERY_S:
            known = Series.objects.filter(run_id=attempt.run_id).values_list("name", flat=True).distinct()
            watched.names = [name for name in known if any(rule.is_about(name) for rule in watched.rules)]
            watched.names_at = now.timestamp()
        return watched.names

    def _first_step(self, watched: Watched, step: int) -> int:
        """Return the step from which on there may be points that were not looked at."""
        taken = (
            watched.series.values() if watched.cursor else ()
        )  # else there are series of which nothing was looked at
        seen = [one.last_step for one in taken if one.last_step is not None]
        before, watched.looked_at = watched.looked_at if seen else step, step
        return max(min(seen) + 1 if seen else step - AT_FIRST, before - AT_FIRST)

    def _take(self, watched: Watched, curve: Curve) -> Iterator[Alarm]:
        labels = str(sorted(curve.labels.items()))
        for number, rule in enumerate(watched.rules):
            if not rule.is_about(curve.name):
                continue
            series = watched.series.setdefault((number, curve.name, labels), SeriesWatch(rule))
            done = max((one.last_step for one in watched.alarms if _is_of(one, curve)), default=None)
            for broken in series.take(points_of(curve)):
                is_new = not (done is not None and broken.point.step <= done)
                if is_new and (alarm := self._add(watched, rule, curve, broken)) is not None:
                    yield Alarm(rule, alarm)

    def _add(self, watched: Watched, rule: WatchRule, curve: Curve, broken: "Broken") -> MetricAlarm | None:
        """Return the alarm where the value begins one; else it belongs to the last, or there are too many."""
        last = next((one for one in reversed(watched.alarms) if _is_of(one, curve) and one.kind == broken.kind), None)
        step, value = broken.point.step, broken.point.value
        if last is not None and step - last.last_step <= rule.over:
            last.last_step, last.num_values = step, last.num_values + 1
            watched.is_changed = True
            return None
        if len(watched.alarms) >= MOST_ALARMS:
            return None
        alarm = MetricAlarm(
            metric=curve.name,
            labels=dict(curve.labels),
            kind=broken.kind,
            first_step=step,
            last_step=step,
            value=value if math.isfinite(value) else None,
            word=word_of(value),
            usual=broken.usual,
            at=broken.point.time,
            action=rule.action,
        )
        alarm.sentence = alarm_sentence(alarm, over=rule.over, deviations=broken.deviations)
        watched.alarms.append(alarm)
        return alarm

    def _write(self, attempt: Attempt, watched: Watched, new: list[Alarm], now: datetime) -> None:
        rows = to_builtins(watched.alarms)
        with transaction.atomic():
            if not Attempt.objects.filter(pk=attempt.pk, alarms=attempt.alarms).update(alarms=rows):
                del self._known[attempt.pk]  # another process was faster: what it wrote is read again
                new.clear()
                return
            for one in new:
                attempt.run.record("metric-alarm", one.alarm.sentence, data=_data(one.alarm), attempt=attempt)
            if len(watched.alarms) >= MOST_ALARMS and not watched.told_many:
                sentence = f"There were {MOST_ALARMS} alarms in this attempt: no further one is recorded."
                attempt.run.record("metric-alarms", sentence, attempt=attempt)
                watched.told_many = True
        attempt.alarms = rows
        watched.is_changed, watched.written_at = False, now.timestamp()


def points_of(curve: Curve) -> "Iterator[Point]":
    """Yield the points of a curve; of a bucket the largest value, or NaN where one of its points is that."""
    columns: Mapping[str, list[float]] = {name: column.tolist() for name, column in curve.columns.items()}
    values = columns["value" if curve.kind == "raw" else "max"]
    num_nan = columns.get("num_nan") or [0] * len(values)
    for step, at, value, bad in zip(columns["step"], columns["time"], values, num_nan, strict=True):
        yield Point(int(step), at, math.nan if bad else value)


def _is_of(alarm: MetricAlarm, curve: Curve) -> bool:
    return alarm.metric == curve.name and alarm.labels == curve.labels


def _data(alarm: MetricAlarm) -> JsonObject:
    found: JsonObject = to_builtins(alarm)
    shown = ("metric", "labels", "kind", "first_step", "value", "word", "usual", "action")
    return {name: found[name] for name in shown}


# Values of a series that break a rule: not finite, or a spike. Pure.
#
# A spike is a value that lies more than ``spike`` robust deviations above the median of the ``over`` values before
# it. The deviation is the median absolute deviation, and never less than a share of the median: a loss that hardly
# moves any more has no noise to compare with. Values that broke a rule are not among those that later ones are
# compared with.


class Point(NamedTuple):
    step: int
    time: float
    value: float


class Broken(NamedTuple):
    """A value that broke the rule. ``usual`` is the median before it, and ``deviations`` how far above it is."""

    point: Point
    kind: Literal["nan", "spike"]
    usual: float | None = None
    deviations: float | None = None


@dataclass
class SeriesWatch:
    """One series under one rule: takes its points in the order of steps."""

    rule: WatchRule
    before: deque[float] = field(init=False)
    last_step: int | None = None
    num_in_a_row: int = 0  # that broke the rule

    def __post_init__(self) -> None:
        self.before = deque(maxlen=self.rule.over)

    def take(self, points: Iterable[Point]) -> Iterator[Broken]:
        """Yield what breaks the rule among the points behind the last that were taken."""
        for point in points:
            if self.last_step is not None and point.step <= self.last_step:
                continue
            self.last_step = point.step
            if not math.isfinite(point.value):
                if self.rule.nan:
                    yield Broken(point, "nan")
                continue
            found = self._spike(point)
            if found is None:
                self.num_in_a_row = 0
                self.before.append(point.value)
                continue
            self.num_in_a_row += 1
            if self.num_in_a_row > self.rule.over:  # it stays there: that is what is usual from now on
                self.before.clear()
                self.num_in_a_row = 0
            yield found

    def _spike(self, point: Point) -> Broken | None:
        if self.rule.spike <= 0 or len(self.before) < min(ENOUGH, self.rule.over):
            return None
        usual = median(self.before)
        if point.value <= usual:
            return None
        spread = TO_SIGMA * median(abs(one - usual) for one in self.before)
        deviations = (point.value - usual) / max(spread, LEAST_DEVIATION * abs(usual), 1e-12)
        return Broken(point, "spike", usual, deviations) if deviations > self.rule.spike else None
