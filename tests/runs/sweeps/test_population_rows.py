"""Population based training over real rows: bad members end, successors go on from good ones, and a replay is a run."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from runs.models import Run, Sweep, Trial
from runs.records.metrics.models import Checkpoint
from runs.sweeps import actions, population_rows
from runs.sweeps.population_rows import lineage, replay_trial
from runs.sweeps.stepping import Stepper
from runs.values.refused import Refused
from runs.values.status import Status
from tests.cast import Cast, spec
from tests.series import write_series
from trainyard.contract.statuses import TrialState
from trainyard.spec import SpecError

BASE = spec(train={"steps": 40, "batch_size": 32}, checkpoint={"every_steps": 100, "keep": 1})


def document(**changes: Any) -> dict[str, Any]:
    return {
        "name": "pbt",
        "base": BASE,
        "space": {
            "train.learning_rate": {"low": 1e-4, "high": 1e-1, "log": True},
            "train.batch_size": {"values": [16, 32, 64]},
        },
        "objective": {"metric": "val/loss", "direction": "minimize"},
        "budget": {"trials": 8, "parallel": 4},
        "sampler": {"name": "population", "size": 4, "interval": 10},
        **changes,
    }


@pytest.fixture(autouse=True)
def no_server(valkey: object) -> None:
    """Hints are sent to a server that is there."""


@pytest.fixture
def started(cast: Cast) -> Sweep:
    return step(actions.start_sweep(actor=cast.mate, document=document()))


def step(sweep: Sweep) -> Sweep:
    """Do one step as a process that has just begun does it."""
    Stepper().step_all(timezone.now())
    return Sweep.objects.get(pk=sweep.pk)


def reach(sweep: Sweep, number: int, value: float, at: int = 10) -> None:
    """Have a trial report at a boundary, and keep a checkpoint there."""
    run = sweep.trials.select_related("run").get(number=number).run
    assert run is not None
    write_series(run, "val/loss", [value], first=at)
    Checkpoint.objects.create(run_id=run.pk, step=at, fence=1, at=1.0)


def states(sweep: Sweep) -> list[str]:
    return [str(one.state) for one in sweep.trials.order_by("number")]


def test_the_worst_ends_and_its_successor_goes_on_from_the_best(started: Sweep) -> None:
    assert states(started) == ["RUNNING"] * 4
    run = started.trials.select_related("run").get(number=0).run
    assert run is not None
    assert run.spec["checkpoint"]["every_steps"] == 10 and run.spec["checkpoint"]["keep"] == 5
    assert run.spec["train"]["validate_every_steps"] == 10
    for number, value in enumerate((1.0, 3.0, 2.0, 9.0)):
        reach(started, number, value)
    sweep = step(started)
    assert states(sweep) == ["RUNNING", "RUNNING", "RUNNING", "PRUNED", "RUNNING"]
    ended, successor = sweep.trials.get(number=3), sweep.trials.select_related("run", "parent").get(number=4)
    assert (ended.value, ended.pruned_at_step) == (9.0, 10)
    assert "Trial 4 takes its place, from trial 0 at step 10." in ended.reason
    assert successor.parent is not None and successor.run is not None
    assert (successor.parent.number, successor.parent_step) == (0, 10)
    assert successor.run.spec["checkpoint"]["restore"] == f"{run.pk}@10"
    assert states(step(sweep)) == states(sweep), "each is judged once at a boundary"


@pytest.mark.parametrize("name", ["prune", "open_trial"])
def test_control_killed_in_mid_decision_changes_nothing_and_decides_again(
    started: Sweep, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    class Killed(BaseException):
        """As SIGKILL: nothing catches it."""

    inner = getattr(population_rows, name)

    def kills(*arguments: Any, **options: Any) -> Any:
        inner(*arguments, **options)
        raise Killed

    for number, value in enumerate((1.0, 3.0, 2.0, 9.0)):
        reach(started, number, value)
    with monkeypatch.context() as patched:
        patched.setattr(population_rows, name, kills)
        with pytest.raises(Killed):
            step(started)
    assert states(started) == ["RUNNING"] * 4
    assert states(step(started)) == ["RUNNING", "RUNNING", "RUNNING", "PRUNED", "RUNNING"]
    assert Run.objects.count() == 5


def test_a_member_that_failed_has_a_successor_and_the_sweep_goes_on(started: Sweep) -> None:
    for number, value in enumerate((1.0, 3.0, 2.0)):
        reach(started, number, value)
    sweep = step(started)
    lost = sweep.trials.get(number=3)
    Run.objects.filter(pk=lost.run_id).update(
        status=Status.FAILED, ended_at=timezone.now(), reason_sentence="It broke."
    )
    sweep = step(sweep)
    rows = {one.number: one for one in sweep.trials.select_related("parent")}
    assert rows[3].state == TrialState.FAILED and len(rows) == 6
    assert max(rows) == 5 and rows[5].parent is not None
    assert states(step(sweep)) == states(sweep), "it is replaced once"


def test_a_line_is_replayed_as_one_run(cast: Cast, started: Sweep) -> None:
    for number, value in enumerate((1.0, 3.0, 2.0, 9.0)):
        reach(started, number, value)
    sweep = step(started)
    first, last = sweep.trials.get(number=0), sweep.trials.get(number=4)
    branches = {one.number: one for one in lineage(sweep)}
    assert branches[0].children == (4,) and branches[4].start == 10
    run = replay_trial(actor=cast.mate, sweep=sweep, number=4)
    assert run.spec["train"]["learning_rate"] == first.parameters["train.learning_rate"]
    assert run.spec["checkpoint"]["restore"] == "" and run.spec["checkpoint"]["every_steps"] == 10
    (change,) = run.spec["changes"]
    assert change["behind"] == 10
    for path, value in last.parameters.items():
        if value != first.parameters[path]:
            assert change[path.removeprefix("train.")] == value
    with pytest.raises(Refused, match="no trial 99"):
        replay_trial(actor=cast.mate, sweep=sweep, number=99)


def test_no_further_successor_is_made_than_the_budget_has(cast: Cast) -> None:
    sweep = step(actions.start_sweep(actor=cast.mate, document=document(budget={"trials": 4, "parallel": 4})))
    for number, value in enumerate((1.0, 3.0, 2.0, 9.0)):
        reach(sweep, number, value)
    assert states(step(sweep)) == ["RUNNING"] * 4


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"budget": {"trials": 8, "parallel": 2}}, "budget.parallel"),
        ({"budget": {"trials": 2, "parallel": 4}}, "budget.trials"),
        ({"pruner": "asha"}, "pruner.name"),
        ({"space": {"task.model.width": {"values": [16, 32]}}}, "has nothing that may change"),
        ({"sampler": {"name": "population", "size": 4, "interval": 40}}, "sampler.interval"),
        ({"base": {**BASE, "changes": [{"behind": 5, "learning_rate": 0.1}]}}, "base.changes"),
    ],
)
def test_what_is_no_population_is_refused(cast: Cast, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError) as caught:
        actions.start_sweep(actor=cast.mate, document=document(**changes))
    assert words in str(caught.value)
    assert not Trial.objects.exists()
