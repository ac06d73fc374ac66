"""Runs that idle: the rule on plain values, and what follows in rows, history, pages and audit."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

import numpy as np
import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from runs.life import stopping
from runs.life.watching import idleness
from runs.life.watching.idleness import judged, mean_use
from runs.models import Attempt, AuditEntry, Cluster, Run, User
from runs.presenting.runs import single_document
from runs.records.metrics.codec import Columns
from runs.records.metrics.models import Checkpoint, NodeSample
from runs.records.points import store
from runs.values.columns import IdleMark
from runs.values.status import Phase, Status, Wanted
from tests.cast import Cast, make_attempt, make_node, make_run, spec
from tests.series import write_points

START, MINUTE = 1_700_000_000.0, 60.0
HALF_HOUR = 30 * MINUTE
NOW = START + HALF_HOUR


def used(percent: float, *, since: float = START, until: float = NOW) -> tuple[np.ndarray, np.ndarray]:
    times = np.arange(since, until, 2.0)
    return times, np.full(times.size, percent)


def without(series: tuple[np.ndarray, np.ndarray], since: float, until: float) -> tuple[np.ndarray, np.ndarray]:
    times, values = series
    kept = (times < since) | (times > until)
    return times[kept], values[kept]


@pytest.mark.parametrize(
    ("series", "at_work", "use"),
    [
        ([used(2.0), used(4.0)], [], 3.0),
        ([used(100.0), used(0.0)], [], 50.0),
        ([used(3.0)], [], None),  # one of two is not measured
        ([], [], None),
        ([used(0.0), used(0.0, until=NOW - 61)], [], None),  # late
        ([used(0.0), used(0.0, until=NOW - 50)], [], 0.0),
        ([used(0.0), used(0.0, since=START + 61)], [], None),  # its beginning is missing
        ([used(0.0), without(used(0.0), START + 600, START + 670)], [], None),  # a gap, as after a clock that jumped
        ([used(0.0), without(used(0.0), START + 600, START + 640)], [], 0.0),
        ([used(0.0), used(0.0, since=NOW + 5, until=NOW + HALF_HOUR)], [], None),  # a clock that is ahead
        ([used(float("nan")), used(0.0)], [], None),
        ([used(250.0), used(-4.0)], [], 50.0),  # more than a core, and nonsense
        ([used(0.0), used(0.0)], [(START, START + HALF_HOUR / 2)], 50.0),  # it saved in half of the time
        ([used(0.0), used(0.0)], [(START, NOW)], 100.0),
    ],
)
def test_the_mean_use_is_of_all_accelerators_over_the_whole_time(
    series: list[tuple[np.ndarray, np.ndarray]], at_work: list[tuple[float, float]], use: float | None
) -> None:
    assert mean_use(series, 2, START, NOW, at_work) == (None if use is None else pytest.approx(use, abs=0.2))


FOUR = "4 GPUs were"
MARK = IdleMark(percent=1, since=NOW - 900, stops_at=NOW + 900)
LATE = IdleMark(percent=1, since=NOW - 1800, stops_at=NOW)


@pytest.mark.parametrize(
    ("use", "known", "settings", "since", "stops_at"),
    [
        (4.9, None, {}, NOW, None),
        (5.0, None, {}, None, None),  # just not below
        (0.0, None, {"idle_action": "off"}, None, None),
        (0.0, MARK, {"idle_action": "off"}, None, None),
        (None, MARK, {}, None, None),  # nobody knows any more
        (0.0, None, {"idle_action": "stop"}, NOW, NOW + 1800),  # noticed first
        (0.0, MARK, {"idle_action": "stop"}, NOW - 900, NOW + 900),
        (0.0, MARK, {}, NOW - 900, None),  # it only marks by now
        (0.0, LATE, {"idle_action": "stop"}, NOW - 1800, NOW),
        (6.0, MARK, {"idle_below": 10.0}, NOW - 900, None),  # the bounds have changed under a run
        (6.0, MARK, {"idle_below": 6.0}, None, None),
        (0.0, MARK, {"idle_action": "stop", "idle_minutes": 10.0}, NOW - 900, NOW + 600),
        (0.0, MARK, {"idle_action": "stop", "idle_minutes": 60.0}, NOW - 900, NOW + 900),
    ],
)
def test_a_mark_follows_the_settings_of_now(
    use: float | None, known: IdleMark | None, settings: dict[str, object], since: float | None, stops_at: float | None
) -> None:
    found = judged(use, known, Cluster(**settings), FOUR, NOW)
    assert (found and found.since, found and found.stops_at) == (since, stops_at)


def test_a_clock_that_was_set_back_does_not_put_off_the_stop_for_long() -> None:
    found = judged(0.0, LATE, Cluster(idle_action="stop"), FOUR, NOW - 86_400)
    assert found is not None and found.stops_at == NOW - 86_400 + 1800


def test_words_have_the_numbers() -> None:
    found = judged(2.04, None, Cluster(idle_action="stop"), FOUR, NOW)
    assert found is not None
    assert found.sentence == (
        "Its 4 GPUs were used 2 % over the last 30 min. It is stopped at 23:13 UTC unless that changes."
    )
    words = idleness.use_words(0.0, Cluster(idle_minutes=90), "CPU slot was")
    assert words == "Its CPU slot was used 0 % over the last 1 h 30 min."


# In rows.

pytestmark = pytest.mark.django_db(databases="__all__")


@pytest.fixture
def now() -> datetime:
    return timezone.now().replace(microsecond=0)


def training(cast: Cast, now: datetime, **changes: object) -> Attempt:
    """A run of two ranks on a node with two GPUs, whose ranks began two hours ago."""
    document = spec(resources={"nodes": 1, "processes_per_node": 2}, **changes)
    run = make_run(cast, spec=document, status=Status.RUNNING, num_nodes=1, slots_per_node=2, created_by=cast.mate)
    node = make_node(cast.cluster, "gpu-node", inventory={"gpus": [{"index": 0}, {"index": 1}]})
    attempt = make_attempt(run, [node], ranks=2, phase=Phase.RUNNING)
    Attempt.objects.filter(pk=attempt.pk).update(go={"address": "a", "port": 1}, go_at=now - timedelta(hours=2))
    return Attempt.objects.get(pk=attempt.pk)


SCRIPT = {"task": {"script": "train.py", "code": "."}, "train": None}


def measure(attempt: Attempt, now: datetime, percent: float, *, minutes: float = 31, name: str = "") -> None:
    end = now.timestamp()
    times = np.arange(end - minutes * MINUTE, end, 2.0)
    columns = Columns((times - times[0]).astype(np.int64), times, np.full(times.size, percent))
    for gpu in ("0", "1"):
        labels = {"node": "gpu-node", "gpu": gpu}
        piece = store.SeriesPiece(f"{attempt.fence:032x}", 1, name or "system/gpu_utilization", labels, columns)
        write_points(attempt.run_id, attempt=attempt.fence, cursor=1, pieces=[piece])


def look(attempt: Attempt, now: datetime) -> Attempt:
    live = Attempt.objects.select_related("run__cluster", "run__project").get(pk=attempt.pk)
    idleness.look(live, now)
    return Attempt.objects.select_related("run").get(pk=attempt.pk)


def codes(attempt: Attempt) -> list[str]:
    return list(attempt.run.events.order_by("id").values_list("code", flat=True))


@pytest.fixture
def script(cast: Cast, now: datetime) -> Attempt:
    return training(cast, now, **SCRIPT)


def test_a_run_that_idles_is_marked_once_and_the_mark_goes_when_it_works(script: Attempt, now: datetime) -> None:
    measure(script, now, 2.0)
    marked = look(look(script, now), now)
    assert marked.idle_mark is not None and marked.idle_mark.percent == pytest.approx(2.0)
    assert codes(marked) == ["idle"]
    (event,) = marked.run.events.all()
    assert event.sentence == "Its 2 GPUs were used 2 % over the last 30 min."
    assert event.data["percent"] == pytest.approx(2.0)
    troubles = single_document(Run.objects.get(pk=script.run_id))["troubles"]
    assert [(one["code"], one["sentence"]) for one in troubles] == [("idle", event.sentence)]
    later = now + timedelta(minutes=31)
    measure(script, later, 80.0, minutes=31)
    over = look(marked, later)
    assert over.idle is None and codes(over) == ["idle", "idle-over"]
    last = over.run.events.last()
    assert last is not None and last.sentence.startswith("It does not count as idle any more. Its 2 GPUs were used ")


@pytest.mark.parametrize("what", ["starts", "saves", "downloads", "late", "off", "just began"])
def test_what_is_at_work_or_not_measured_does_not_idle(cast: Cast, now: datetime, what: str) -> None:
    attempt = training(cast, now, **({} if what == "starts" else SCRIPT))
    measure(attempt, now - timedelta(minutes=2 if what == "late" else 0), 0.0)
    at = now.timestamp()
    if what == "saves":
        Checkpoint.objects.create(run_id=attempt.run_id, step=9, fence=attempt.fence, took_s=600.0, at=at - 300)
    if what == "downloads":
        node = attempt.placements.get().node_id
        NodeSample.objects.bulk_create(
            NodeSample(node_id=node, at=at - 2 * n, health={"network_received_bytes_per_s": 5e7}) for n in range(300)
        )
    if what == "off":
        Cluster.objects.update(idle_action="off")
    if what == "just began":
        Attempt.objects.update(go_at=now - timedelta(minutes=29))
    assert look(attempt, now).idle is None and codes(attempt) == []


def test_a_recipe_counts_from_its_first_step(cast: Cast, now: datetime) -> None:
    attempt = training(cast, now)
    measure(attempt, now, 1.0)
    at = now.timestamp() - 40 * MINUTE
    columns = Columns(np.array([1, 2], np.int64), np.array([at, at + 1]), np.array([3.0, 2.0]))
    piece = store.SeriesPiece("a" * 32, 1, "train/loss", {}, columns)
    write_points(attempt.run_id, attempt=attempt.fence, cursor=2, pieces=[piece])
    assert look(attempt, now).idle is not None


def test_cpu_slots_are_measured_by_their_ranks(cast: Cast, now: datetime) -> None:
    attempt = training(cast, now, **SCRIPT)
    attempt.placements.get().node.__class__.objects.update(inventory={})
    measure(attempt, now, 0.4, name="system/rank_cpu_percent")
    mark = look(attempt, now).idle_mark
    assert mark is not None and mark.sentence == "Its 2 CPU slots were used 0.4 % over the last 30 min."


def test_a_cluster_stops_what_was_marked_for_as_long_again_and_says_why(script: Attempt, now: datetime) -> None:
    Cluster.objects.update(idle_action="stop")
    measure(script, now + timedelta(minutes=31), 1.0, minutes=62)
    marked = look(script, now)
    assert marked.idle_mark is not None and "It is stopped at " in marked.idle_mark.sentence
    assert look(marked, now + timedelta(minutes=29)).run.status == Status.RUNNING
    stopped = look(marked, now + timedelta(minutes=30, seconds=1))
    run = Run.objects.get(pk=script.run_id)
    assert (run.status, run.wanted) == (Status.STOPPING, Wanted.STOP)
    assert run.reason_sentence.startswith("Its 2 GPUs were used 1 % over the last 30 min. By the rule of cluster local")
    assert stopped.stop is not None and stopped.stop["why"] == "idle"
    code, sentence, _ = stopping.outcome(run.spec, stopped.stop, [])
    assert code == "idle" and sentence == (
        "Stopped by the rule of cluster local for idle runs, since its 2 GPUs were used 1 % over the last 30 min."
    )
    act = AuditEntry.objects.latest("sequence")
    assert (act.actor, act.action, act.object) == ("cluster local", "runs.stop", f"run {run.pk}")


def test_a_run_that_somebody_stops_at_that_moment_is_stopped_once(script: Attempt, now: datetime) -> None:
    """Two that act at once: the run's row says who was first."""
    Cluster.objects.update(idle_action="stop")
    measure(script, now + timedelta(minutes=31), 1.0, minutes=62)
    look(script, now)
    stale = Attempt.objects.select_related("run__cluster", "run__project").get(pk=script.pk)
    begin = partial(stopping.begin, why=stopping.ASKED, code="stopping", sentence="Asked.", now=now)
    run = Run.objects.get(pk=script.run_id)
    begin(run, run.live_attempt())
    idleness.look(stale, now + timedelta(minutes=31))
    assert Attempt.objects.get(pk=script.pk).stop["why"] == "asked"  # type: ignore[index]
    assert not AuditEntry.objects.filter(actor="cluster local").exists()


def page(user: User, name: str, *args: str) -> str:
    client = Client()
    client.force_login(user)
    return client.get(reverse(name, args=args)).content.decode()


def test_pages_say_it_in_words_to_those_whom_it_concerns(script: Attempt, now: datetime, cast: Cast) -> None:
    measure(script, now, 2.0)
    look(script, now)
    words = "Its 2 GPUs were used 2 % over the last 30 min."
    assert words in page(cast.viewer, "run", script.run_id)
    assert "idle, 2 % used" in page(cast.viewer, "runs")
    assert words in page(cast.viewer, "cluster-queue", cast.cluster.name)
    for user, sees in ((cast.owner, True), (cast.mate, True), (cast.viewer, False)):
        assert (words in page(user, "home")) is sees, user
