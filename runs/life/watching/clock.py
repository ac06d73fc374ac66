"""Watching live runs once a second, in a thread of control's own: reading points must not hold up the tick."""

import time
from collections.abc import Callable, Sequence
from datetime import datetime

import structlog
from redis.exceptions import RedisError

from runs.life import replacing, rewinding, stopping
from runs.life.watching.alarms import Alarm, AlarmWatch
from runs.life.watching.slow_ranks import SlowRankWatch
from runs.life.watching.words import who
from runs.models import Attempt
from runs.models.runs import StaleStatus
from runs.records.metrics.models import Telemetry
from runs.serving.clock import Clock
from runs.values.columns import SlowRank
from runs.values.refused import Refused
from runs.values.status import Status, TransitionError
from trainyard.spec import SpecError
from trainyard.spec.sections.stragglers import StragglerRules

KEPT = "straggler-kept"
NOT_REWOUND = "rewind-refused"
log = structlog.get_logger(__name__)

EVERY_S = 1.0
LOCK_S = 10
ALARMS, SLOW = "alarms", "slow"
LEAST_REST_S = {ALARMS: 0.5, SLOW: 2.0}  # between two looks at an attempt
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
        attempts = list(
            live.filter(go__isnull=False, stop__isnull=True).select_related("run").prefetch_related("placements__node")
        )
        known = Telemetry.objects.in_bulk([one.run_id for one in attempts])
        for attempt in attempts:
            telemetry = known.get(attempt.run_id)
            if telemetry is not None and telemetry.cursor != self._cursors.get(attempt.pk):
                self._look(attempt, telemetry, now)
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
            self._cursors.pop(attempt.pk, None)  # what has come is looked at later
            return
        began = time.monotonic()
        try:
            look()
        except (RedisError, OSError):
            raise
        except Exception:  # a bug, or points that nobody expected: the other runs are watched all the same
            log.exception("watch.failed", run=attempt.run_id, what=what)
        rest_s = max(LEAST_REST_S[what], SHARE * (time.monotonic() - began))
        self._due_at[attempt.pk, what] = now.timestamp() + rest_s

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
    if not started or StragglerRules.of(attempt.run.spec).action != "exclude-node":
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
        attempt.run.record(KEPT, sentence, attempt=attempt)
    except (StaleStatus, TransitionError):
        return  # it has ended, or somebody has stopped it


def act_on_alarms(attempt: Attempt, alarms: Sequence[Alarm], now: datetime) -> None:
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
        attempt.run.record(NOT_REWOUND, f"The run goes on and is not sent back: {error}", attempt=attempt)
    except (StaleStatus, TransitionError):
        return  # it has ended, or somebody has stopped it
