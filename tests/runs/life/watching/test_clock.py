"""From stored series to alarms, the history and what a rule asks for."""

from __future__ import annotations

import math
from datetime import timedelta

import numpy as np
import pytest
from django.utils import timezone

from runs.life.watching.clock import MOST_ALARMS, NAMES_EVERY_S, AlarmWatch, Watcher
from runs.models import Attempt, Run
from runs.records.metrics.codec import Columns
from runs.records.metrics.models import Checkpoint, Telemetry
from runs.records.points.store import SeriesPiece
from runs.values.status import Phase, Status, Wanted
from tests.cast import Cast, make_attempt, make_node, make_run, spec
from tests.runs.api.conftest import Api
from tests.series import write_points, write_series

pytestmark = pytest.mark.django_db(databases="__all__")


def live(cast: Cast, *rules: dict[str, object]) -> Attempt:
    document = spec(checkpoint={"every_steps": 10}, **({"watch": list(rules)} if rules else {}))
    run = make_run(cast, spec=document, status=Status.RUNNING)
    return make_attempt(run, [make_node(cast.cluster)], phase=Phase.RUNNING)


def log(attempt: Attempt, values: list[float], *, first: int = 1, name: str = "train/loss", **labels: str) -> Telemetry:
    write_series(attempt.run, name, values, labels=labels, attempt=attempt.fence, first=first)
    telemetry = Telemetry.objects.get(pk=attempt.run_id)
    telemetry.attempt, telemetry.cursor = attempt.fence, first + len(values)
    telemetry.save()
    return telemetry


def write_batch(
    attempt: Attempt, cursor: int, name: str, values: list[float], *, first: int = 1, **labels: str
) -> None:
    steps = np.arange(first, first + len(values), dtype=np.int64)
    piece = SeriesPiece("a" * 32, cursor, name, labels, Columns(steps, steps.astype(np.float64), np.array(values)))
    write_points(attempt.run_id, attempt=attempt.fence, cursor=cursor, pieces=[piece])


def telemetry_at(attempt: Attempt, cursor: int) -> Telemetry:
    now = {"attempt": attempt.fence, "cursor": cursor, "step": cursor}
    return Telemetry.objects.update_or_create(run_id=attempt.run_id, defaults=now)[0]


def sentences(attempt: Attempt, code: str = "metric-alarm") -> list[str]:
    return [event.sentence for event in attempt.run.events.filter(code=code).order_by("pk")]


def test_by_default_nan_and_spikes_of_the_loss_are_notices(cast: Cast) -> None:
    attempt = live(cast)
    values = [2.0] * 100
    values[59], values[79] = 9.0, math.nan
    telemetry = log(attempt, values)
    watch = AlarmWatch()
    assert [one.alarm.first_step for one in watch.judge(attempt, telemetry, timezone.now())] == [60, 80]
    assert sentences(attempt) == [
        "train/loss rose to 9 at step 60: 70 deviations above 2, the median of up to 50 values before it.",
        "train/loss is not a number at step 80.",
    ]
    assert watch.judge(attempt, telemetry, timezone.now()) == []
    items = Api(cast.mate)("GET", f"/runs/{attempt.run_id}/alarms").json()["items"]
    assert [(one["kind"], one["first_step"], one["value"]) for one in items] == [("spike", 60, 9.0), ("nan", 80, None)]
    assert Run.objects.get(pk=attempt.run_id).status == Status.RUNNING


def test_values_in_a_row_are_one_alarm_and_another_control_repeats_none(cast: Cast) -> None:
    attempt = live(cast)
    telemetry = log(attempt, [1.0] * 10 + [math.nan] * 200)
    assert len(AlarmWatch().judge(attempt, telemetry, timezone.now())) == 1
    (alarm,) = Attempt.objects.get(pk=attempt.pk).known_alarms
    assert (alarm.first_step, alarm.last_step, alarm.num_values) == (11, 210, 200)
    again = Attempt.objects.select_related("run").get(pk=attempt.pk)
    assert AlarmWatch().judge(again, telemetry, timezone.now()) == []
    assert len(sentences(attempt)) == 1


def test_a_storm_is_bounded(cast: Cast) -> None:
    attempt = live(cast, {"metric": "train/loss", "nan": True, "over": 10})
    values = [math.nan if step % 15 == 0 else 1.0 for step in range(1, 901)]
    AlarmWatch().judge(attempt, log(attempt, values), timezone.now())
    assert len(sentences(attempt)) == MOST_ALARMS
    assert sentences(attempt, "metric-alarms") == ["There were 20 alarms in this attempt: no further one is recorded."]


def test_a_pattern_watches_each_series_of_each_rank(cast: Cast) -> None:
    attempt = live(cast, {"metric": "rank/*", "nan": True})
    log(attempt, [1.0, 1.0], name="rank/loss", rank="0")
    log(attempt, [math.nan], name="train/loss")
    AlarmWatch().judge(attempt, log(attempt, [1.0, math.inf], name="rank/loss", rank="1"), timezone.now())
    assert sentences(attempt) == ["rank/loss of rank 1 is infinite at step 2."]


def test_a_metric_that_a_pattern_finds_later_is_watched_from_its_first_point(cast: Cast) -> None:
    attempt, watch, now = live(cast, {"metric": "train/*", "nan": True}), AlarmWatch(), timezone.now()
    write_batch(attempt, 1, "train/loss", [1.0, 1.0])
    watch.judge(attempt, telemetry_at(attempt, 1), now)
    write_batch(attempt, 2, "train/norm", [math.nan, 1.0])
    assert watch.judge(attempt, telemetry_at(attempt, 2), now + timedelta(seconds=1)) == []
    write_batch(attempt, 3, "train/loss", [math.nan], first=3)
    watch.judge(attempt, telemetry_at(attempt, 3), now + timedelta(seconds=1 + NAMES_EVERY_S))
    assert sorted(sentences(attempt)) == [
        "train/loss is not a number at step 3.",
        "train/norm is not a number at step 1.",
    ]


def test_a_rank_whose_points_come_later_is_watched_from_its_first_point(cast: Cast) -> None:
    attempt, watch, now = live(cast, {"metric": "train/loss", "nan": True}), AlarmWatch(), timezone.now()
    write_batch(attempt, 1, "train/loss", [1.0, 1.0, 1.0], rank="0")
    watch.judge(attempt, telemetry_at(attempt, 1), now)
    write_batch(attempt, 2, "train/loss", [math.nan, 1.0], rank="1")
    watch.judge(attempt, telemetry_at(attempt, 2), now + timedelta(seconds=1))
    assert sentences(attempt) == ["train/loss of rank 1 is not a number at step 1."]


def test_values_of_an_older_attempt_count_no_more(cast: Cast) -> None:
    attempt = live(cast)
    write_series(attempt.run, "train/loss", [math.nan] * 5, attempt=attempt.fence - 1)
    assert AlarmWatch().judge(attempt, log(attempt, [1.0] * 5), timezone.now()) == []


def test_a_rule_may_stop_the_run(cast: Cast) -> None:
    attempt = live(cast, {"metric": "train/loss", "nan": True, "action": "stop"})
    log(attempt, [1.0, math.nan])
    Watcher().round(timezone.now())
    run = Run.objects.get(pk=attempt.run_id)
    assert (run.status, run.wanted) == (Status.STOPPING, Wanted.STOP)
    assert run.reason_sentence.startswith("train/loss is not a number at step 2. Its rule stops the run: ")


def test_a_rule_may_send_the_run_back_so_often_and_no_more(cast: Cast) -> None:
    attempt = live(cast, {"metric": "train/loss", "nan": True, "action": "rewind", "rewinds": 1})
    for step in (10, 20):
        Checkpoint.objects.create(run_id=attempt.run_id, step=step, fence=attempt.fence, at=0.0)
    log(attempt, [1.0] * 17 + [math.nan] * 10)
    Watcher().round(timezone.now())
    run = Run.objects.get(pk=attempt.run_id)
    assert (run.status, Attempt.objects.get(pk=attempt.pk).stop["at_once"]) == (Status.STOPPING, True)
    (rewind,) = run.known_rewinds
    assert (rewind.to_step, rewind.first, rewind.last, rewind.rule) == (10, 17, 18, "train/loss")
    Attempt.objects.filter(pk=attempt.pk).update(ended_at=timezone.now())
    Run.objects.filter(pk=run.pk).update(status=Status.RUNNING, wanted=Wanted.RUN)
    run.refresh_from_db()
    second = make_attempt(run, [make_node(cast.cluster)], phase=Phase.RUNNING)
    log(second, [math.nan], first=17)
    Watcher().round(timezone.now())
    (refused,) = sentences(second, "rewind-refused")
    assert refused.endswith("It was sent back once by this rule, and that is as often as it may be.")
    assert Run.objects.get(pk=run.pk).status == Status.RUNNING
