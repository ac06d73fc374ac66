"""What measuring costs: a step under DDP with its phases, bytes and FLOPs measured and logged, beside the same step
without, in one process group and in blocks that take turns.

Measuring waits for nothing: what it costs is processor time of the thread that trains. That is compared, since it is
the same on a busy machine; the wall time of the steps stands beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional
from torch.distributed.distributed_c10d import ProcessGroup, Work

import trainyard
from benchmarks import goals
from benchmarks.ranks import gpt_spec, on_ranks
from benchmarks.table import Goal, Row, middle, scaled, spread_of
from benchmarks.training import prepared
from benchmarks.training_cases.bench_step import BLOCK, MODELS, WARM_STEPS, WORLD, Times, interval
from trainyard.contract.base import JsonObject
from trainyard.spec import RecipeSpec
from workers.training import group as process_group
from workers.training.build import Training
from workers.training.group import RankPlace
from workers.training.loop import report, report_measures, settle, take_step
from workers.training.measuring.collectives import FUNCTIONS, METHODS
from workers.training.measuring.measures import Measures, Progress, StepMeasures
from workers.training.measuring.phases import Phases
from workers.training.passes import PlainPasses

PAIRS = 8
WATCHED: list[tuple[Any, str]] = [
    *((ProcessGroup, name) for name in METHODS),
    *((functional, name) for name in FUNCTIONS),
    (Work, "wait"),
    (functional, "wait_tensor"),
]
PLAIN = [vars(owner)[name] for owner, name in WATCHED]  # as torch has them, before anything is counted


class NoPhases(Phases):
    """Reads no clock."""

    def start(self, name: str) -> None:
        pass

    def switch(self, name: str) -> str:
        return ""

    def read(self) -> dict[str, float]:
        return {}


class NoMeasures(Measures):
    """Measures nothing, and has nothing to log."""

    def __init__(self) -> None:
        self.phases = NoPhases(torch.device("cpu"))

    def begin(self) -> None:
        pass

    def end(self, time_s: float) -> StepMeasures:
        return StepMeasures({}, 0)

    def kept(self, stall_s: float) -> dict[str, float]:
        return {}

    def own(self, measured: StepMeasures) -> dict[str, float]:
        return {}

    def shared(self, time_s: float, batch_size: int) -> dict[str, float]:
        return {}

    def facts(self, step: int, *, rows: int, is_last: bool = False) -> None:
        return None


def rows() -> list[Row]:
    return [row for name, (changes, goal) in MODELS.items() for row in rows_of(name, changes, goal)]


def rows_of(name: str, changes: JsonObject, goal: Goal | None) -> list[Row]:
    num_pairs = scaled(PAIRS, least=2)
    spec = gpt_spec(WORLD, **{"steps": WARM_STEPS + (num_pairs + 1) * BLOCK, **changes})
    busy, wall = on_ranks(WORLD, rank_times, spec, num_pairs)[0]
    with_ms, without_ms = (middle(second for one in blocks for second in one) * 1000 for blocks in wall)
    low, ratio, high = interval(busy)
    against = "the same step unmeasured"
    spread = spread_of([middle(one) * 1000 for one in wall.ours])
    return [
        Row(f"measured step under DDP, {name}: median", with_ms, "ms", without_ms, against, spread=spread),
        Row(f"measured step under DDP, {name}: processor time, times an unmeasured one's", ratio, "times", 1.0, against,
            goal=goals.PHASES if goal else None, spread=(low, high), note=f"{num_pairs} pairs of blocks"),
    ]  # fmt: skip


def rank_times(place: RankPlace, spec: RecipeSpec, num_pairs: int) -> tuple[Times, Times]:
    """In a rank: let the two kinds of steps take turns, each going first as often as the other. Return the processor
    time of each step of this thread, and its wall time."""
    process_group.join(place, torch.device("cpu"))
    training = prepared(spec, place)
    settle(training)
    take = step_of(training)
    num_steps = scaled(BLOCK, least=10)
    busy, wall = Times([], []), Times([], [])
    block(take, 1, WARM_STEPS)
    for pair in range(num_pairs):
        first = WARM_STEPS + 1 + pair * BLOCK
        for is_measured in (True, False) if pair % 2 == 0 else (False, True):
            with measured(training, is_measured):
                busy_s, wall_s = block(take, first, num_steps)
            busy[0 if is_measured else 1].append(busy_s)
            wall[0 if is_measured else 1].append(wall_s)
    return busy, wall


def block(take: Callable[[int], None], first: int, num_steps: int) -> tuple[list[float], list[float]]:
    dist.barrier()
    busy_s, wall_s = [], []
    for step in range(first, first + num_steps):
        started, used = time.perf_counter(), time.thread_time()
        take(step)
        busy_s.append(time.thread_time() - used)
        wall_s.append(time.perf_counter() - started)
    return busy_s, wall_s


def step_of(training: Training) -> Callable[[int], None]:
    """Return what ``run_loop`` does in a step without validation or checkpoint, with points going to a spool."""
    metrics = trainyard.init()
    progress = Progress(training.settings.steps, training.task.unit) if training.mesh.rank == 0 else None

    def take(step: int) -> None:
        result = take_step(training, step)
        report(training, step, result, metrics, progress)
        started = time.perf_counter()
        report_measures(training, step, training.share.micro, time.perf_counter() - started, metrics, is_last=False)

    return take


@contextmanager
def measured(training: Training, is_measured: bool) -> Iterator[None]:
    """Leave ``training`` as it is, or measure nothing in the block: no clock, no hook, no counter."""
    if is_measured:
        yield
        return
    passes, measures = training.passes, training.measures
    assert isinstance(passes, PlainPasses)
    counted = [vars(owner)[name] for owner, name in WATCHED]
    for (owner, name), plain in zip(WATCHED, PLAIN, strict=True):
        setattr(owner, name, plain)
    training.measures = nothing = NoMeasures()
    passes._phases = nothing.phases
    passes._backward = lambda loss: loss.backward()  # type: ignore[method-assign, no-untyped-call]
    yield
    del passes._backward  # the class has its own
    training.measures, passes._phases = measures, measures.phases
    for (owner, name), counting in zip(WATCHED, counted, strict=True):
        setattr(owner, name, counting)
