"""Times of runs from rows, events and points, and their sums, on every surface that shows them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from runs.models import Attempt, Placement, Run, RunTime
from runs.records.metrics.models import Checkpoint, Telemetry
from runs.records.time_use import sums
from runs.records.time_use.split import NAMES, TimeUse
from runs.records.time_use.sums import times_of
from runs.values.status import Phase, Status
from tests.cast import Cast, make_attempt, make_node, make_user, spec
from tests.runs.api.conftest import Api
from tests.runs.presenting.test_throughput import shown
from tests.series import START_S, write_series
from tests.voices import rank
from trainyard.contract.base import to_builtins
from trainyard.contract.causes import Cause, CauseClass

pytestmark = pytest.mark.django_db(databases="__all__")
MakeRun = Callable[..., Run]
START = datetime.fromtimestamp(START_S, UTC)  # a step that is numbered N is logged N seconds later


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def change(run: Run, to: Status, seconds: float, attempt: Attempt | None = None, code: str = "x") -> None:
    """Let the run have had that status from then on."""
    event = run.record(code, "It changed.", data={"from": run.status, "to": to}, attempt=attempt)
    type(event).objects.filter(pk=event.pk).update(at=after(seconds))
    run.status = to
    if to in (Status.SUCCEEDED, Status.FAILED):
        run.ended_at = after(seconds)
    run.save()


def attempt_of(run: Run, start: float, end: float | None) -> Attempt:
    cluster = run.cluster
    assert cluster is not None
    attempt = make_attempt(run, [make_node(cluster)], phase=Phase.ENDED if end else Phase.RUNNING)
    Attempt.objects.filter(pk=attempt.pk).update(created_at=after(start), ended_at=after(end) if end else None)
    return Attempt.objects.get(pk=attempt.pk)


@pytest.fixture
def run(make_run: MakeRun) -> Run:
    """Submitted at -20, placed at -10, steps 1 to 100, killed at 102, known at 105; then steps 81 to 200 from 120 on,
    which begin at 80 by the clock of the points: so its second attempt runs from 205 on."""
    run = make_run(spec=spec(train={"steps": 200, "batch_size": 32}))
    Run.objects.filter(pk=run.pk).update(created_at=after(-20))
    run.refresh_from_db()
    first = attempt_of(run, -10, 105)
    report = {"ranks": [rank(0, START_S + 102, exit_code=None, signal=9)]}
    Placement.objects.filter(attempt=first).update(report=report)
    write_series(run, "train/loss", [1.0] * 100, attempt=first.fence)
    Checkpoint.objects.create(run_id=run.pk, step=80, fence=first.fence, stall_s=1.5, at=START_S + 80)
    change(run, Status.SCHEDULED, -10, first)
    change(run, Status.RUNNING, -5, first)
    change(run, Status.FAILED, 105, first)
    return run


def test_the_time_of_a_failed_run_of_one_attempt_adds_up_and_nothing_of_it_was_trained_again(run: Run) -> None:
    found = times_of([run], after(1_000))[run.pk]
    expected = TimeUse(queued_s=10, starting_s=11, productive_s=99.5, checkpoint_s=1.5, detection_s=3)
    assert found.by_name() == pytest.approx(expected.by_name())
    assert found.total_s == pytest.approx(125)


def test_ranks_that_stood_still_did_nothing_since_their_last_step(run: Run) -> None:
    cause = Cause(cause_class=CauseClass.HANG, sentence="Rank 1 is stopped.")
    Attempt.objects.filter(run=run).update(cause=to_builtins(cause))
    found = times_of([run], after(1_000))[run.pk]
    assert (found.recomputed_s, found.detection_s) == (0, pytest.approx(5))  # steps until 100, known at 105
    assert found.total_s == pytest.approx(125)


def test_steps_that_are_trained_again_are_told_from_new_ones(run: Run) -> None:
    change(run, Status.QUEUED, 105, code="retry")
    second = attempt_of(run, 79, None)
    Attempt.objects.filter(pk=second.pk).update(created_at=after(105))
    write_series(run, "train/loss", [1.0] * 120, attempt=second.fence, first=81)
    Telemetry.objects.filter(pk=run.pk).update(attempt=second.fence, step=200, step_at=START_S + 200)
    run.ended_at = None
    change(run, Status.RUNNING, 107, second)
    found = times_of([Run.objects.get(pk=run.pk)], after(210))[run.pk]
    # By the clock of these points step 100 came at 100, before the attempt began: what is measured is never negative.
    assert found.total_s == pytest.approx(230) and min(found.by_name().values()) >= 0
    assert found.productive_s == pytest.approx(97.5 + 105)


def test_control_writes_the_time_of_a_run_that_ended_and_again_after_a_restart(run: Run) -> None:
    sums.record_ended(after(110))
    row = RunTime.objects.get()
    assert (row.run_id, row.ended_at, row.detection_s) == (run.pk, after(105), pytest.approx(3))
    assert sums.times_shown([run], after(500))[run.pk].total_s == pytest.approx(125)
    sums.record_ended(after(120))  # nothing is left to do
    run.ended_at = None
    change(run, Status.QUEUED, 200, code="restarted")
    assert sums.times_shown([run], after(210))[run.pk].queued_s == pytest.approx(20)
    change(run, Status.FAILED, 220)
    sums.record_ended(after(230))
    assert RunTime.objects.get().queued_s == pytest.approx(30)


def test_a_sum_is_over_ended_and_live_runs_that_have_started(run: Run, make_run: MakeRun) -> None:
    sums.record_ended(after(110))
    make_run(name="waits")
    live = make_run(name="live")
    Run.objects.filter(pk=live.pk).update(created_at=after(0))
    live.refresh_from_db()
    change(live, Status.RUNNING, 10, attempt_of(live, 10, None))
    found = sums.time_of_all(Run.objects.all(), after(110))
    assert found.total_s == pytest.approx(125 + 110)
    assert found.starting_s == pytest.approx(11 + 100)
    assert sums.time_of_all(Run.objects.all(), after(110) + sums.WINDOW).detection_s == 0


def test_the_sum_for_who_sees_no_run_is_nothing(cast: Cast) -> None:
    operator = make_user("operator", is_staff=True)  # sees clusters, and is in no project
    assert sums.time_of_all(Run.objects.filter(pk__in=[]), after(110)).total_s == 0
    client = Client()
    client.force_login(operator)
    assert client.get(reverse("clusters")).status_code == 200
    assert Api(operator)("GET", f"/clusters/{cast.cluster.pk}").status_code == 200


def test_a_sum_is_kept_for_a_minute(run: Run, django_assert_num_queries: Any) -> None:
    sums.record_ended(after(110))
    everything = Run.objects.all()
    first = sums.time_of_all(everything, after(110))
    with django_assert_num_queries(0):
        assert sums.time_of_all(everything, after(110)) == first
    assert first.total_s == pytest.approx(125)
    assert sums.time_of_all(Run.objects.filter(pk="another"), after(110)).total_s == 0
    RunTime.objects.all().delete()
    assert sums.time_of_all(everything, after(110 + sums.KEPT_S)).total_s == 0


def test_rest_the_pages_and_the_terminal_say_it(run: Run, cast: Cast, capsys: pytest.CaptureFixture[str]) -> None:
    sums.record_ended(after(110))
    mate = Api(cast.mate)
    time = mate("GET", f"/runs/{run.pk}").json()["time"]
    assert set(time) == {*NAMES, "total_s", "goodput"}
    assert (time["total_s"], time["goodput"]) == (pytest.approx(125), pytest.approx(0.796))
    assert mate("GET", "/runs").json()["items"][0]["time"] == time
    for path in (f"/projects/{cast.project.pk}", f"/clusters/{cast.cluster.pk}"):
        assert mate("GET", path).json()["time"]["total_s"] == 0  # it ended long ago, by the clock of this machine
    text = shown(mate("GET", f"/runs/{run.pk}").json(), capsys)
    assert "time       goodput 80 % of 2 min 5 s: productive 1 min 40 s, starting 11 s" in text
    client = Client()
    client.force_login(cast.mate)
    text = " ".join(client.get(f"/runs/{run.pk}/timeline/").content.decode().split())
    assert "Where the time went" in text and "Goodput <b>80 %</b>" in text
    assert 'aria-label="Wall time: Productive 1 min 40 s, Checkpoints' in text


def test_the_pages_of_a_project_and_a_cluster_sum_it(run: Run, cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    sums.record_ended(after(110))
    monkeypatch.setattr(sums, "WINDOW", timedelta(days=36_500))
    client = Client()
    client.force_login(cast.mate)
    for path in (f"{reverse('people')}?part=time", reverse("clusters")):
        assert "Goodput <b>80 %</b>" in client.get(path).content.decode(), path


def test_of_a_run_that_was_logged_elsewhere_nobody_knows_it(make_run: MakeRun, cast: Cast) -> None:
    run = make_run(local_id="laptop", status=Status.RUNNING)
    assert Api(cast.mate)("GET", f"/runs/{run.pk}").json()["time"] is None
