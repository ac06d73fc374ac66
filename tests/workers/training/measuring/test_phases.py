from __future__ import annotations

import threading
from statistics import median
from typing import Any

import pytest
import torch

from tests.workers.training.ranks import Point, tiny_spec, train_on
from workers.training.measuring import phases
from workers.training.measuring.phases import IN_A_STEP, Phases

STEPS = 12
PIPELINE = {"data": 1, "pipeline": {"stages": 2}}
WAYS: dict[str, tuple[int, dict[str, Any]]] = {
    "plain": (1, {}),
    "ddp": (2, {}),
    "fsdp": (2, {"data": 1, "shard": 2}),
    "pipeline": (2, PIPELINE),
}


class Clock:
    """Goes on by itself when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(phases, "time", clock)
    return clock


def test_each_moment_of_a_step_is_in_one_phase(clock: Clock) -> None:
    step = Phases(torch.device("cpu"))
    step.start("optimizer")
    clock.now = 1
    assert step.switch("forward") == "optimizer"
    clock.now = 3
    with step.within("communication"):
        clock.now = 7
    clock.now = 8
    step.stop()
    clock.now = 100
    assert step.read() == {"data": 0, "forward": 3, "backward": 0, "communication": 4, "optimizer": 1}


def test_outside_of_a_step_nothing_is_counted(clock: Clock) -> None:
    step = Phases(torch.device("cpu"))
    with step.within("communication"):
        clock.now = 5
    step.start("data")
    step.stop()
    assert step.switch("forward") == ""
    clock.now = 9
    assert set(step.read().values()) == {0}


def test_the_next_step_begins_anew(clock: Clock) -> None:
    step = Phases(torch.device("cpu"))
    for _ in range(2):
        step.start("data")
        clock.now += 2
        step.stop()
    assert step.read()["data"] == 2


def test_only_the_thread_that_trains_has_a_step() -> None:
    step = Phases(torch.device("cpu"))
    step.start("data")
    said: list[bool] = []
    other = threading.Thread(target=lambda: said.append(step.is_of_this_thread()))
    other.start()
    other.join()
    assert said == [False] and step.is_of_this_thread()


@pytest.mark.parametrize("way", WAYS)
def test_the_phases_of_a_rank_add_up_to_its_steps(way: str) -> None:
    world, parallel = WAYS[way]
    for rank, points in enumerate(train_on(world, spec(world, parallel), setup=report_step_times)):
        parts, whole = phases_of(points, rank), series_of(points, "took/step_s", rank)
        assert len(whole) == STEPS
        # The median: a rank that is put aside between two readings of the clock says nothing about the phases.
        ratios = [sum(parts[name][step] for name in IN_A_STEP) / took for step, took in whole.items()]
        assert median(ratios) == pytest.approx(1, rel=0.05), ratios
        computed = {name: sum(parts[name].values()) for name in IN_A_STEP}
        assert min(computed["forward"], computed["backward"], computed["optimizer"]) > 0
        assert world == 1 or computed["communication"] > 0


@pytest.mark.parametrize(
    "parallel",
    [{}, {"data": 1, "shard": 2}, {"synchronization": {"kind": "parameter-server", "max_staleness": 0}}],
    ids=["ddp", "fsdp", "parameter-server"],
)
def test_who_waits_for_a_slow_rank_says_so_and_the_slow_one_does_not(parallel: dict[str, Any]) -> None:
    ranks = train_on(2, spec(2, parallel), setup=slow_down_rank_1)
    forward, waiting = (
        [median(phases_of(points, rank)[name].values()) for rank, points in enumerate(ranks)]
        for name in ("forward", "communication")
    )
    assert forward[1] - forward[0] > 0.5 * DELAY_S, forward
    assert waiting[0] - waiting[1] > 0.5 * DELAY_S, waiting


DELAY_S = 0.04  # of a step; medians, and longer than a busy machine puts a rank aside in most of them


def slow_down_rank_1() -> None:
    """Sleep in rank 1's forward passes of training."""
    import time

    import torch.distributed as dist

    from workers.training.recipes.language_model import LanguageModelTask

    report_step_times()
    plain = LanguageModelTask.loss

    def slow(self: Any, model: Any, batch: Any) -> Any:
        if dist.get_rank() == 1 and torch.is_grad_enabled():
            time.sleep(DELAY_S)
        return plain(self, model, batch)

    LanguageModelTask.loss = slow  # type: ignore[method-assign]


def report_step_times() -> None:
    """Log what each rank's step took by the clock on the wall; rank 0's alone is a series."""
    from workers.training import loop

    plain = loop.report

    def report(training: Any, step: int, result: Any, metrics: Any, progress: Any) -> None:
        plain(training, step, result, metrics, progress)
        metrics.log({"took/step_s": result.step_time_s}, step=step, labels={"rank": str(training.mesh.rank)})

    loop.report = report


def spec(world: int, parallel: dict[str, Any]) -> dict[str, Any]:
    return tiny_spec(world=world, steps=STEPS, parallel=parallel, validate_every_steps=0, checkpoint={"every_steps": 0})


def phases_of(points: list[Point], rank: int) -> dict[str, dict[int | None, float]]:
    return {name: series_of(points, f"rank/phase/{name}_s", rank) for name in IN_A_STEP}


def series_of(points: list[Point], name: str, rank: int) -> dict[int | None, float]:
    return {step: value for found, step, labels, value in points if found == name and labels.get("rank") == str(rank)}
