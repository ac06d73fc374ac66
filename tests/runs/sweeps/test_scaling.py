"""A scaling study over real rows: sizes are launched in turn, and what cannot run is left out before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from runs.models import CodeBundle, Run, Sweep
from runs.records.metrics.models import Fact, Telemetry
from runs.rights.access import Forbidden
from runs.sweeps.actions import add_trial
from runs.sweeps.scaling import scaling_of, start_scaling
from runs.sweeps.stepping import Stepper
from runs.values.status import Status
from tests.cast import Cast, make_node, spec
from tests.series import write_series
from trainyard.contract.statuses import SweepStatus, TrialState
from trainyard.spec import SpecError

Start = Callable[..., Sweep]
SHAPE = "resources"


@pytest.fixture(autouse=True)
def no_server(valkey: object) -> None:
    """Hints are sent to a server that is there."""


@pytest.fixture
def start(cast: Cast) -> Start:
    """Two nodes of two slots each."""
    for name in ("node-a", "node-b"):
        make_node(cast.cluster, name)
    return lambda *ranks, document=None, **options: start_scaling(
        actor=cast.mate, document=document or spec(), ranks=ranks, **options
    )


def step(sweep: Sweep) -> Sweep:
    Stepper().step_all(timezone.now())
    return Sweep.objects.get(pk=sweep.pk)


def live(sweep: Sweep) -> Run:
    """The one run that goes on."""
    [run] = Run.objects.filter(trial__sweep=sweep, ended_at=None)
    return run


def end(run: Run, *, step_s: float = 0.0, messages: tuple[float, ...] = (), status: Status = Status.SUCCEEDED) -> None:
    """End a run whose steps took that long; ``messages`` are each rank's seconds of communication in a step."""
    if step_s:
        write_series(run, "train/step_time_s", [9.0, *[step_s] * 20])
    for rank, seconds in enumerate(messages):
        phases = {"forward": step_s / 2, "backward": step_s / 4, "communication": seconds}
        data = {"step": 21, "num_steps": 20, "step_time_s": step_s, "phases": phases}
        Fact.objects.create(run_id=run.pk, attempt=1, name="measured", rank=rank, data=data, at=0.0)
    Run.objects.filter(pk=run.pk).update(status=status, ended_at=timezone.now(), reason_sentence="So it was.")


def test_sizes_train_one_after_another_and_each_is_beside_what_was_promised(start: Start) -> None:
    sweep = step(start(4, 1, 2))
    assert [one.number for one in sweep.trials.all()] == [1, 2, 4]
    for ranks, step_s, messages in ((1, 1.0, (0.0,)), (2, 0.6, (0.05, 0.15)), (4, 0.5, (0.1, 0.2, 0.2, 0.2))):
        run = live(sweep)
        nodes, each = (2, 2) if ranks == 4 else (1, ranks)
        assert (run.name, run.tags) == (f"hello-gpt-scale-{ranks}", ["sweep:hello-gpt-scale"])
        assert (run.spec[SHAPE]["nodes"], run.spec[SHAPE]["processes_per_node"]) == (nodes, each)
        assert run.spec["train"]["batch_size"] == 32
        end(run, step_s=step_s, messages=messages)
        sweep = step(sweep)
    assert (sweep.status, sweep.reason_sentence) == (SweepStatus.SUCCEEDED, "3 of 3 trials completed.")
    found = scaling_of(sweep)
    assert found is not None and not found["weak"]
    one, two, four, beyond = found["sizes"]
    assert [size["speed_up"] for size in (one, two, four)] == pytest.approx([1.0, 1 / 0.6, 2.0])
    assert (one["predicted"], beyond["ranks"], beyond["state"]) == (None, 8, "")
    for size in (two, four, beyond):
        told = size["predicted"]
        assert told is not None and told["by"] == "planner" and told["low"] < told["speed_up"] < told["high"]
    assert two["losses"]["communication"] == pytest.approx(0.05 / 0.6)
    assert two["losses"]["waiting"] == pytest.approx(0.05 / 0.6)
    assert sum(two["losses"].values()) + (two["efficiency"] or 0) == pytest.approx(1)
    assert found["verdict"].startswith("4 ranks train 2.0 times as fast as 1; 8 would bring ")


def test_weak_scaling_keeps_the_batch_of_a_rank_and_fewer_steps_are_enough(start: Start) -> None:
    sweep = step(start(1, 2, is_weak=True, steps=50))
    for ranks, step_s in ((1, 1.0), (2, 1.25)):
        run = live(sweep)
        assert (run.spec["train"]["batch_size"], run.spec["train"]["steps"]) == (32 * ranks, 50)
        end(run, step_s=step_s)
        sweep = step(sweep)
    found = scaling_of(sweep)
    assert found is not None and found["weak"]
    assert found["sizes"][1]["speed_up"] == pytest.approx(1.6)


def test_the_jobs_own_size_stands_as_it_says(start: Start) -> None:
    shape = {"nodes": 2, "processes_per_node": 1}
    sweep = start(1, 2, document=spec(resources=shape, parallel={"data": 2}))
    shapes = [one.parameters[SHAPE] for one in sweep.trials.all()]
    assert [(one["nodes"], one["processes_per_node"]) for one in shapes] == [(1, 1), (2, 1)]


def test_what_the_cluster_never_holds_is_left_out_before_and_a_failed_size_is_a_row(start: Start) -> None:
    sweep = start(1, 2, 4, 8)
    left = sweep.trials.get(number=8)
    assert (left.state, left.run) == (TrialState.FAILED, None)
    assert left.reason == (
        "Left out: cluster local can never hold 8 ranks. "
        "resources.nodes: 4 is more than this cluster has: 2 nodes with 2 slots or more."
    )
    sweep = step(sweep)
    for status in (Status.SUCCEEDED, Status.FAILED, Status.SUCCEEDED):
        end(live(sweep), step_s=0.5, status=status)
        sweep = step(sweep)
    found = scaling_of(sweep)
    assert found is not None and sweep.status == SweepStatus.SUCCEEDED
    assert [bool(size["speed_up"]) for size in found["sizes"]] == [True, False, True, False, False]
    assert "So it was." in found["sizes"][1]["reason"]
    assert found["sizes"][3]["predicted"] is not None, "it is said what it would bring"


def test_a_script_is_counted_by_the_times_of_its_points_and_its_next_size_is_fitted(start: Start, cast: Cast) -> None:
    CodeBundle.objects.create(project=cast.project, sha256="a" * 64, size_bytes=1, files=["train.py"])
    base = {"name": "mine", "task": {"script": "train.py", "code": {"sha256": "a" * 64}}}
    with pytest.raises(SpecError, match="train: means nothing to a script"):
        start(1, 2, document=base, steps=5)
    sweep = step(start(1, 2, 4, document=base, is_weak=True))
    for pace in (0.5, 0.625, None):
        run = live(sweep)
        if pace:
            write_series(run, "loss", [1.0, 0.5])
            Telemetry.objects.filter(pk=run.pk).update(median_step_s=pace, intervals_s=[pace * 0.9, pace, pace * 1.1])
        end(run)
        sweep = step(sweep)
    found = scaling_of(sweep)
    assert found is not None and found["weak"]
    one, two, four, _ = found["sizes"]
    assert (one["speed_up"], two["speed_up"]) == (pytest.approx(1), pytest.approx(1.6))
    assert four["reason"] == "Its steps are not known. It logged nothing." and four["speed_up"] is None
    told = four["predicted"]
    assert told is not None and told["by"] == "ring" and told["speed_up"] == pytest.approx(4 * 0.5 / 0.6875)


def test_a_trial_that_somebody_adds_is_no_size_and_another_sweep_no_study(start: Start, cast: Cast) -> None:
    sweep = start(1, 2)
    add_trial(actor=cast.mate, sweep=sweep, parameters={SHAPE: {}})
    found = scaling_of(sweep)
    assert found is not None and [size["ranks"] for size in found["sizes"]] == [1, 2, 4]
    assert scaling_of(Sweep(study_state={})) is None


@pytest.mark.parametrize(
    ("ranks", "document", "words"),
    [
        ((1,), {}, "ranks: must be 2 to 16 different numbers from 1 to 4,096, such as 1, 2, 4, not 1"),
        ((), {}, "not none"),
        ((2, 2), {}, "not 2, 2"),
        ((0, 1), {}, "not 0, 1"),
        (tuple(range(1, 18)), {}, "ranks: must be 2 to 16 different numbers"),
        ((1, 10**9), {}, "not 1, 1000000000"),
        ((1, 2), {"parallel": {"shard": 2}}, "parallel: shard 2 x .* = 2 does not divide the world size"),
        ((1, 2), {"parallel": {"shard": 2}, "resources": {"nodes": 2}}, "ranks: 1 cannot run: parallel: shard 2"),
        ((1, 8, 16), {}, "ranks: fewer than two sizes can run. Left out: cluster local can never hold 8 ranks"),
        ((1, 2), {"train": {"steps": 0}}, "train.steps"),
        ((1, 2), {"cluster": "none"}, "cluster: there is no cluster"),
        ((2, 4), {"task": {"recipe": "communication-benchmark"}}, "means nothing to a benchmark"),
    ],
)
def test_what_cannot_be_studied_is_refused_with_field_and_value(
    start: Start, ranks: tuple[int, ...], document: dict[str, Any], words: str
) -> None:
    with pytest.raises(SpecError, match=words):
        start(*ranks, document=spec(**document))
    assert not Sweep.objects.exists() and not Run.objects.exists()


def test_a_batch_that_does_not_divide_is_refused(start: Start, cast: Cast) -> None:
    make_node(cast.cluster, slots=3)
    with pytest.raises(SpecError, match=r"ranks: 3 cannot run: train.batch_size: 32"):
        start(1, 3)


def test_who_only_looks_starts_no_study(start: Start, cast: Cast) -> None:
    with pytest.raises(Forbidden):
        start_scaling(actor=cast.viewer, document=spec(), ranks=[1, 2])
