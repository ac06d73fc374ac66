"""A sweep's steps over real rows: trials get runs, reports are read, bad trials are pruned, ends are found, and a
process killed at any point loses and doubles nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from runs.life.reconcile import schedule
from runs.models import Membership, Run, Sweep, Trial, TrialReport
from runs.records.metrics.models import Telemetry
from runs.rights.access import NotFound
from runs.sweeps import actions, ending, launching, observing, stepping
from runs.sweeps.checking import preview
from runs.sweeps.reading import summary_of, sweep_trials
from runs.sweeps.stepping import Stepper
from runs.values.refused import Refused
from runs.values.status import Status
from tests.cast import Cast, make_node, spec
from tests.series import write_series
from trainyard.contract.statuses import SweepStatus, TrialState
from trainyard.spec import SpecError
from trainyard.spec.sweeps import parse_sweep

BASE = spec(train={"steps": 100, "batch_size": 32}, checkpoint={"every_steps": 50})


def document(**changes: Any) -> dict[str, Any]:
    found = {
        "name": "search",
        "base": BASE,
        "space": {"train.learning_rate": {"low": 1e-4, "high": 1e-1, "log": True}},
        "objective": {"metric": "val/loss", "direction": "minimize"},
        "budget": {"trials": 4, "parallel": 2},
        "sampler": "random",
        **changes,
    }
    return {**found, "budget": {"ahead": 0, **found["budget"]}}


@pytest.fixture(autouse=True)
def no_server(valkey: object) -> None:
    """Hints are sent to a server that is there."""


@pytest.fixture
def start(cast: Cast) -> Callable[..., Sweep]:
    return lambda **changes: actions.start_sweep(actor=cast.mate, document=document(**changes))


def step(sweep: Sweep, stepper: Stepper | None = None) -> Sweep:
    """Do one step as a process that has just begun does it, or as ``stepper`` does."""
    (stepper or Stepper()).step_all(timezone.now())
    return Sweep.objects.get(pk=sweep.pk)


def end(run: Run | None, status: Status = Status.SUCCEEDED) -> None:
    assert run is not None
    now = timezone.now()
    changes = {"started_at": now - timedelta(seconds=10), "ended_at": now, "reason_sentence": "So it was."}
    Run.objects.filter(pk=run.pk).update(status=status, **changes)


def trial(sweep: Sweep, number: int) -> Trial:
    return sweep.trials.select_related("run").get(number=number)


def report(sweep: Sweep, number: int, *values: float, ends: bool = True) -> None:
    run = trial(sweep, number).run
    assert run is not None
    write_series(run, "val/loss", values)
    if ends:
        end(run)


def test_a_sweep_keeps_as_many_trials_live_as_it_may_and_ends_with_the_best(start: Callable[..., Sweep]) -> None:
    sweep = step(start())
    assert [one.state for one in sweep.trials.all()] == [TrialState.RUNNING] * 2
    assert {one.run.name for one in sweep.trials.select_related("run") if one.run} == {"search-0", "search-1"}
    assert trial(sweep, 0).run.tags == ["sweep:search"]  # type: ignore[union-attr]
    for number in range(4):
        report(sweep, number, 2.0, 1.0 - number / 10)
        sweep = step(sweep)
    assert (sweep.status, sweep.reason_sentence) == (SweepStatus.SUCCEEDED, "4 of 4 trials completed.")
    best = summary_of(sweep).best
    assert best is not None and (best.number, best.value) == (3, pytest.approx(0.7))
    rows = sweep_trials(sweep, timezone.now())
    assert [one["value"] for one in rows] == pytest.approx([1.0, 0.9, 0.8, 0.7])
    assert rows[0]["rank_seconds"] == pytest.approx(10.0, abs=1.0)
    assert Run.objects.count() == 4


KILLED = [
    (stepping, "suggest"),
    (launching, "prepare_run"),
    (launching, "queue_run"),
    (observing, "_judge"),
    (ending, "end_runs"),
    (stepping, "finish_ended"),
]


@pytest.mark.parametrize("when", ["before", pytest.param("after", marks=pytest.mark.extended)])
@pytest.mark.parametrize(("module", "name"), KILLED, ids=[name for _, name in KILLED])
def test_control_killed_at_any_point_loses_and_doubles_no_trial(
    start: Callable[..., Sweep], monkeypatch: pytest.MonkeyPatch, module: Any, name: str, when: str
) -> None:
    """Each process that steps is killed once at that point, and another goes on from the rows."""

    class Killed(BaseException):
        """As SIGKILL: nothing catches it."""

    is_armed = False
    inner = getattr(module, name)

    def kills(*arguments: Any, **options: Any) -> Any:
        nonlocal is_armed
        if is_armed and when == "before":
            is_armed = False
            raise Killed
        found = inner(*arguments, **options)
        if is_armed:
            is_armed = False
            raise Killed
        return found

    monkeypatch.setattr(module, name, kills)
    sweep = start(pruner={"name": "asha", "min": 1, "factor": 2})
    for turn in range(10):
        is_armed = turn % 2 == 0
        try:
            sweep = step(sweep)
        except Killed:
            sweep = Sweep.objects.get(pk=sweep.pk)
        for one in sweep.trials.filter(state=TrialState.RUNNING).select_related("run"):
            if one.run and one.run.status == Status.QUEUED and not Telemetry.objects.filter(run_id=one.run_id).exists():
                write_series(one.run, "val/loss", [1.0 + one.number])
            elif one.run and one.run.status == Status.QUEUED:
                end(one.run)
    sweep = step(sweep)
    assert sweep.status == SweepStatus.SUCCEEDED, sweep.reason_sentence
    trials = list(sweep.trials.all())
    assert [one.number for one in trials] == [0, 1, 2, 3]
    assert Run.objects.count() == 4 and len({one.run_id for one in trials}) == 4
    assert {one.state for one in trials} <= {TrialState.COMPLETE, TrialState.PRUNED}


def test_the_same_seed_proposes_the_same_trials(start: Callable[..., Sweep]) -> None:
    one, two = step(start(name="one")), step(start(name="two"))
    assert [row.parameters for row in one.trials.all()] == [row.parameters for row in two.trials.all()]
    assert one.trials.count() == 2


def test_a_trial_that_is_behind_is_pruned_and_its_run_keeps_its_checkpoint(start: Callable[..., Sweep]) -> None:
    sweep = step(start(pruner={"name": "asha", "min": 2, "factor": 2}))
    report(sweep, 0, 1.0, 0.5, ends=False)
    report(sweep, 1, 3.0, 2.5, 2.4, ends=False)
    sweep = step(sweep)
    pruned = trial(sweep, 1)
    assert (pruned.state, pruned.pruned_at_step, pruned.value) == (TrialState.PRUNED, 2, 2.5)
    assert pruned.reason.startswith("Stopped at step 2: val/loss 2.5 is not among")
    assert pruned.run is not None and pruned.run.status == Status.CANCELLED
    assert pruned.run.reason_code == "pruned"
    assert trial(sweep, 2).state == TrialState.RUNNING, "the next one took its place"


def test_a_pruned_trial_that_is_promoted_goes_on_and_is_not_pruned_again(
    cast: Cast, start: Callable[..., Sweep]
) -> None:
    sweep = step(start(pruner={"name": "asha", "min": 2, "factor": 2}))
    report(sweep, 0, 1.0, 0.5, ends=False)
    report(sweep, 1, 3.0, 2.5, ends=False)
    sweep = step(sweep)
    actions.promote_trial(actor=cast.mate, sweep=sweep, number=1)
    sweep = step(sweep)
    promoted = trial(sweep, 1)
    assert (promoted.state, promoted.is_promoted) == (TrialState.RUNNING, True)
    assert promoted.run is not None and promoted.run.status == Status.QUEUED
    with pytest.raises(Refused, match="Only one that was pruned"):
        actions.promote_trial(actor=cast.mate, sweep=sweep, number=1)


def test_steps_that_a_restart_trains_again_are_reported_once(start: Callable[..., Sweep]) -> None:
    sweep = step(start())
    run = trial(sweep, 0).run
    assert run is not None
    write_series(run, "val/loss", [3.0, 2.0, 1.0])
    sweep = step(sweep)
    write_series(run, "val/loss", [7.0, 6.0], attempt=2, first=3)
    sweep = step(sweep)
    assert list(TrialReport.objects.values_list("step", "value")) == [(1, 3.0), (2, 2.0), (3, 1.0), (4, 6.0)]
    assert trial(sweep, 0).steps == 4


@pytest.mark.parametrize(
    ("values", "words"), [((), "val/loss was never reported."), ((1.0, float("nan")), "val/loss was NaN")]
)
def test_a_metric_that_never_came_or_is_nan_fails_the_trial(
    start: Callable[..., Sweep], values: tuple[float, ...], words: str
) -> None:
    sweep = step(start())
    if values:
        report(sweep, 0, *values)
    else:
        end(trial(sweep, 0).run)
    sweep = step(sweep)
    assert trial(sweep, 0).state == TrialState.FAILED
    assert words in trial(sweep, 0).reason


def test_trials_that_all_fail_end_the_sweep_with_one_sentence(start: Callable[..., Sweep]) -> None:
    sweep = start(budget={"trials": 200, "parallel": 2, "failures": 3})
    for _ in range(4):
        sweep = step(sweep)
        for one in sweep.trials.filter(state=TrialState.RUNNING).select_related("run"):
            end(one.run, Status.FAILED)
    sweep = step(sweep)
    assert sweep.status == SweepStatus.FAILED
    assert sweep.reason_sentence.startswith("3 trials in a row failed. The last, trial ")
    assert sweep.trials.count() <= 5


def test_values_that_do_not_go_together_fail_their_trial_alone(start: Callable[..., Sweep]) -> None:
    space = {"train.batch_size": {"values": [32, 33]}, "resources.nodes": {"values": [1, 2]}}
    sweep = step(start(space=space, sampler="grid", budget={"trials": 9, "parallel": 9}))
    states = {str(one.parameters): one for one in sweep.trials.all()}
    assert len(states) == 4, "a grid has no more"
    failed = [one for one in states.values() if one.state == TrialState.FAILED]
    assert [one.parameters for one in failed] == [{"train.batch_size": 33, "resources.nodes": 2}]
    assert failed[0].reason.startswith("It cannot run: ") and failed[0].run is None


def test_stop_ends_live_trials_and_pause_launches_no_further_one(cast: Cast, start: Callable[..., Sweep]) -> None:
    sweep = step(start())
    actions.pause_sweep(actor=cast.mate, sweep=sweep)
    report(sweep, 0, 1.0)
    sweep = step(sweep)
    assert (sweep.status, sweep.trials.count()) == (SweepStatus.PAUSED, 2)
    actions.resume_sweep(actor=cast.mate, sweep=sweep)
    sweep = step(sweep)
    assert sweep.trials.count() == 3
    actions.stop_sweep(actor=cast.mate, sweep=sweep)
    sweep = step(step(sweep))
    assert (sweep.status, sweep.reason_sentence) == (SweepStatus.CANCELLED, "Stopped by mate.")
    assert not sweep.live_trials().exists()
    assert Run.objects.filter(status=Status.CANCELLED).count() == 2
    with pytest.raises(Refused, match="already ended"):
        actions.stop_sweep(actor=cast.mate, sweep=sweep)


def test_a_budget_of_time_or_of_gpu_hours_ends_the_sweep(start: Callable[..., Sweep]) -> None:
    sweep = step(start(budget={"trials": 9, "parallel": 1, "time": "1h"}))
    Sweep.objects.filter(pk=sweep.pk).update(active_since=timezone.now() - timedelta(hours=2))
    report(sweep, 0, 1.0)
    sweep = step(step(sweep))
    assert (sweep.status, sweep.reason_code) == (SweepStatus.SUCCEEDED, "time")
    other = step(start(budget={"trials": 9, "parallel": 1, "gpu_hours": 0.001}))
    report(other, 0, 1.0)
    other = step(step(other))
    assert (other.status, other.reason_code) == (SweepStatus.SUCCEEDED, "gpu-hours")


def test_a_trial_by_hand_comes_first_and_is_not_of_the_budget(cast: Cast, start: Callable[..., Sweep]) -> None:
    sweep = step(start(budget={"trials": 3, "parallel": 1}))
    actions.add_trial(actor=cast.mate, sweep=sweep, parameters={"train.learning_rate": 0.5})
    with pytest.raises(SpecError, match=r"parameters.train.steps: does not vary"):
        actions.add_trial(actor=cast.mate, sweep=sweep, parameters={"train.steps": 1})
    with pytest.raises(SpecError, match=r"train.learning_rate"):
        actions.add_trial(actor=cast.mate, sweep=sweep, parameters={"train.learning_rate": -1})
    report(sweep, 0, 1.0)
    sweep = step(sweep)
    assert (trial(sweep, 1).state, trial(sweep, 1).by_hand) == (TrialState.RUNNING, True)
    for number in (1, 2, 3):
        report(sweep, number, 1.0)
        sweep = step(sweep)
    assert (sweep.status, sweep.trials.count()) == (SweepStatus.SUCCEEDED, 4)


def test_the_space_may_be_widened_and_an_ended_sweep_given_more(cast: Cast, start: Callable[..., Sweep]) -> None:
    sweep = step(start(budget={"trials": 1}))
    report(sweep, 0, 1.0)
    sweep = step(sweep)
    assert sweep.is_final
    wider = {"train.learning_rate": {"low": 1e-5, "high": 1.0, "log": True}}
    sweep = actions.change_sweep(actor=cast.mate, sweep=sweep, space=wider, budget={"trials": 3, "parallel": 2})
    sweep = step(sweep)
    assert (sweep.status, sweep.live_trials().count()) == (SweepStatus.RUNNING, 2)
    with pytest.raises(SpecError, match=r"must include 1e-05 to 1"):
        narrow = {"train.learning_rate": {"low": 0.1, "high": 1.0, "log": True}}
        actions.change_sweep(actor=cast.mate, sweep=sweep, space=narrow)


def test_the_best_is_launched_again_with_several_seeds(cast: Cast, start: Callable[..., Sweep]) -> None:
    sweep = step(start(budget={"trials": 1}))
    report(sweep, 0, 1.0)
    sweep = step(sweep)
    runs = actions.launch_again(actor=cast.mate, sweep=sweep)
    assert [one.spec["train"]["seed"] for one in runs] == [0, 1, 2]
    rate = trial(sweep, 0).parameters["train.learning_rate"]
    assert {one.spec["train"]["learning_rate"] for one in runs} == {rate}


def test_a_trial_of_several_seeds_has_their_mean(start: Callable[..., Sweep]) -> None:
    sweep = step(start(seeds=2, budget={"trials": 1}))
    one = trial(sweep, 0)
    for run_id, value in zip(one.run_ids(), (1.0, 3.0), strict=True):
        run = Run.objects.get(pk=run_id)
        write_series(run, "val/loss", [value])
        end(run)
    sweep = step(sweep)
    assert (sweep.status, trial(sweep, 0).value) == (SweepStatus.SUCCEEDED, 2.0)
    assert len(sweep_trials(sweep, timezone.now())[0]["further_runs"]) == 1


def test_old_runs_that_match_the_space_are_where_a_warm_sweep_starts(start: Callable[..., Sweep]) -> None:
    first = step(start(budget={"trials": 2, "parallel": 2}))
    for number in (0, 1):
        report(first, number, 1.0 + number)
    step(first)
    warm = step(start(name="warm", warm_start=True, budget={"trials": 2, "parallel": 1}))
    known = list(warm.trials.filter(by_hand=True))
    assert sorted(one.value or 0 for one in known) == [1.0, 2.0]
    assert warm.trials.count() == 3
    assert warm.best is not None and warm.best.value == 1.0, "they count as trials that are over"


def test_who_lost_their_role_ends_their_sweep(cast: Cast, start: Callable[..., Sweep]) -> None:
    sweep = start()
    Membership.objects.filter(user=cast.mate).delete()
    sweep = step(sweep)
    assert sweep.status == SweepStatus.FAILED
    assert "may not launch its trials any more" in sweep.reason_sentence


def test_who_may_not_launch_starts_no_sweep(cast: Cast) -> None:
    with pytest.raises(Exception, match="member"):
        actions.start_sweep(actor=cast.viewer, document=document())
    with pytest.raises(NotFound):
        actions.start_sweep(actor=cast.outsider, document=document())
    assert not Sweep.objects.exists()


def test_a_preview_counts_trials_and_names_those_that_cannot_run(cast: Cast) -> None:
    space = {"train.batch_size": {"values": [32, 33]}, "resources.nodes": {"values": [1, 2]}}
    found = preview(cast.mate, document(space=space, sampler="grid", budget={"trials": 9}))
    assert (found["trials"], found["num_tried"], found["num_refused"]) == (4, 4, 1)
    assert found["refused"][0]["parameters"] == {"train.batch_size": 33, "resources.nodes": 2}
    with pytest.raises(SpecError, match="none of 2 trials that were tried can run"):
        bad = spec(resources={"nodes": 2, "processes_per_node": 1})
        space = {"train.batch_size": {"values": [31, 33]}}
        preview(cast.mate, document(base=bad, space=space, sampler="grid"))


def test_an_edited_job_does_not_change_its_sweep(cast: Cast) -> None:
    from runs.actions import save_job

    job = save_job(actor=cast.mate, document=BASE)
    sweep = actions.start_sweep(actor=cast.mate, document=document(base={"job": job.pk}))
    save_job(actor=cast.mate, document={**BASE, "train": {"steps": 7, "batch_size": 32}})
    job.delete()
    sweep = step(sweep)
    assert trial(sweep, 0).run.spec["train"]["steps"] == 100  # type: ignore[union-attr]


def test_trials_that_need_no_result_are_queued_ahead_and_wait_for_their_place(
    cast: Cast, start: Callable[..., Sweep]
) -> None:
    node = make_node(cast.cluster, slots=4)
    sweep = step(start(budget={"trials": 6, "parallel": 2, "ahead": None}))
    assert [one.state for one in sweep.trials.all()] == [TrialState.RUNNING] * 4, "two for now, and the next two"
    schedule(cast.cluster.pk, timezone.now())
    runs = [one.run for one in sweep.trials.select_related("run").order_by("number") if one.run]
    assert [run.status for run in runs] == [Status.SCHEDULED] * 2 + [Status.QUEUED] * 2
    sentence = "Waiting for another trial of sweep search to end: 2 run at a time."
    assert Run.objects.get(pk=runs[2].pk).reason_sentence == sentence
    node.held_slots.filter(placement__attempt__run=runs[1]).delete()  # its ranks have ended; its records have not come
    schedule(cast.cluster.pk, timezone.now())
    assert Run.objects.get(pk=runs[2].pk).status == Status.SCHEDULED
    assert Run.objects.get(pk=runs[3].pk).status == Status.QUEUED
    actions.pause_sweep(actor=cast.mate, sweep=sweep)
    node.held_slots.all().delete()
    schedule(cast.cluster.pk, timezone.now())
    assert Run.objects.get(pk=runs[3].pk).status == Status.QUEUED
    learning = parse_sweep(document(sampler="tpe", budget={"trials": 6, "parallel": 2, "ahead": None}))
    assert learning.ahead == 0, "its next trial would know less"
