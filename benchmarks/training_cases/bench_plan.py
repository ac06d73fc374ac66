"""What the planner predicts beside what is measured, over twelve plans: memory at the peak of each rank, and the
time of a step.

One calibration, as a run of the communication benchmark does it, comes first: what two ranks compute at once, and their
links. The same small model is timed then and each second between a plan's steps, so that a machine whose speed changes
is told from a prediction that is wrong: steps are given as they would have been at the calibration. The planner is
right where the measured value lies in its range. Other plans set the margin, but these twelve were looked at while it
was chosen: this shows how well it fits, not how it does on plans that nobody had looked at.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist

from benchmarks import goals
from benchmarks.pacers import Pace, pacers
from benchmarks.ranks import on_ranks
from benchmarks.table import Goal, Row, middle, scaled, spread_of
from benchmarks.training import prepared
from trainyard.contract.base import JsonObject
from trainyard.planner import DataFacts, Estimate, NodeFacts, Rates, estimate
from trainyard.planner.results import MEMORY_RANGE, TIME_RANGE
from trainyard.spec import parse_spec
from trainyard.spec.models import RecipeSpec
from workers.training import group as process_group
from workers.training.communication.calibration import measure_ranks
from workers.training.communication.exchanges import sizes_between
from workers.training.communication.main import Sweeps, measure_pairs, with_links, worst
from workers.training.group import RankPlace, gather_all
from workers.training.loop import settle, take_step
from workers.training.measuring.memory import peak_bytes, restart_peak

WORLD = 2
STEPS = 20
RUNS = 2  # of a plan: where holes come to lie in a heap is chance, and differs from run to run
LEAST_S = 8.0  # of a run's steps, so that some seconds in which a machine is slow are not most of them
MOST_STEPS = 250
WARM_STEPS = 5
BLOCK_S = 1.0  # of steps between two looks at how fast the machine is
OPERATIONS = ("all-reduce", "all-gather", "reduce-scatter")
SMALLEST_BYTES, LARGEST_BYTES, REPEATS = 1024, 16 * 2**20, 30
TWO = {"nodes": WORLD, "accelerator": "cpu"}


def language(layers: int, width: int, heads: int, context: int = 128) -> JsonObject:
    sizes = {"layers": layers, "width": width, "heads": heads, "context": context}
    return {"recipe": "language-model", "model": sizes}


# By name: task, parallel, train. Fixed before anything was fitted.
Case = tuple[JsonObject, JsonObject, JsonObject]  # task, parallel and train of a spec
PLANS: dict[str, Case] = {
    "GPT 4 x 128, data 2": (language(4, 128, 4), {}, {"batch_size": 32}),
    "GPT 6 x 192, data 2": (language(6, 192, 6, 256), {}, {"batch_size": 16}),
    "GPT 4 x 256, shard 2": (language(4, 256, 4), {"shard": 2}, {"batch_size": 32}),
    "GPT 4 x 128, tensor 2": (language(4, 128, 4), {"tensor": 2}, {"batch_size": 32}),
    "GPT 8 x 128, pipeline 2": (language(8, 128, 4), {"pipeline": {"stages": 2}}, {"batch_size": 32}),
    "GPT 6 x 256, one rank, SGD": (language(6, 256, 4), {"world": 1}, {"batch_size": 16, "optimizer": "sgd"}),
    "GPT 4 x 192, data 2, accumulate 4": (language(4, 192, 6), {}, {"batch_size": 64, "accumulate": 4}),
    "GPT 6 x 192, data 2, checkpointing": (
        language(6, 192, 6, 256),
        {},
        {"batch_size": 16, "activation_checkpointing": "full"},
    ),
    "GPT 3 x 320, data 2, larger batch, SGD": (language(3, 320, 5), {}, {"batch_size": 64, "optimizer": "sgd"}),
    "ViT 6 x 128, data 2": (
        {"recipe": "image-classifier", "model": {"architecture": "vit", "layers": 6, "width": 128}},
        {},
        {"batch_size": 256},
    ),
    "ResNet 6 x 32, data 2": (
        {"recipe": "image-classifier", "model": {"architecture": "resnet", "layers": 6, "width": 32}},
        {},
        {"batch_size": 64},
    ),
    "MLP 6 x 1024, data 2": ({"recipe": "tabular", "model": {"layers": 6, "width": 1024}}, {}, {"batch_size": 128}),
}


class Measured(NamedTuple):
    """What one rank saw: bytes at its peak in each run; the seconds of each step, and of the small model about then."""

    peaks: list[int]
    seconds: list[float]
    paces: list[float]

    def __or__(self, other: Measured) -> Measured:
        return Measured(self.peaks + other.peaks, self.seconds + other.seconds, self.paces + other.paces)


class Calibrated(NamedTuple):
    """What the planner counts with, and the seconds of the small model's pass when it was measured."""

    rates: Rates
    model_s: float


class Compared(NamedTuple):
    """A plan: what was predicted of it, and what each rank measured."""

    name: str
    predicted: Estimate
    ranks: list[Measured]
    model_s: float  # of the small model's pass at the calibration

    @property
    def memory(self) -> tuple[float, float]:
        """Predicted and measured bytes, the mean of the runs', of the rank where they differ most."""
        pairs = [
            (memory.total, statistics.mean(rank.peaks))
            for memory, rank in zip(self.predicted.memory, self.ranks, strict=True)
        ]
        return max(pairs, key=lambda pair: abs(error(*pair)))

    @property
    def steps(self) -> list[list[float]]:
        """The seconds of each rank's steps, as the machine was at the calibration."""
        return [
            [step * self.model_s / pace for step, pace in zip(rank.seconds, rank.paces, strict=True)]
            for rank in self.ranks
        ]

    @property
    def drift(self) -> float:
        """How many times as long as at the calibration the machine took for the same."""
        return middle([pace for rank in self.ranks for pace in rank.paces]) / self.model_s

    @property
    def seconds(self) -> tuple[float, float]:
        """Predicted and measured seconds of the slower rank's median step."""
        return self.predicted.step_time.total, max(middle(steps) for steps in self.steps)

    @property
    def as_it_was(self) -> tuple[float, float]:
        """Predicted and measured seconds, whatever else was slower or quicker than at the calibration."""
        return self.predicted.step_time.total, max(middle(rank.seconds) for rank in self.ranks)


def error(predicted: float, measured: float) -> float:
    """Return by how much of the measured the prediction is off."""
    return predicted / measured - 1


def spec_of(name: str, plan: Case) -> RecipeSpec:
    task, parallel, train = plan
    shared = dict(parallel)
    spec = parse_spec(
        {
            "name": name,
            "resources": {**TWO, "nodes": shared.pop("world", WORLD)},
            "task": task,
            "parallel": shared,
            "train": {"steps": 1_000, **train},
            "checkpoint": {"every_steps": 0},  # its copy of the state would come only with the first one
        }
    )
    assert isinstance(spec, RecipeSpec)
    return spec


def calibrated() -> Calibrated:
    """Return what a run of the communication benchmark on two ranks notes of them."""
    rates = on_ranks(WORLD, rank_rates, is_forked=True)[0]
    return Calibrated(rates, rates.model_s)


def rank_rates(place: RankPlace) -> Rates:
    """In a rank: compute all at once, and exchange between."""
    device = torch.device("cpu")
    process_group.join(place, device)
    sizes = sizes_between(SMALLEST_BYTES, LARGEST_BYTES)
    sweeps = Sweeps(OPERATIONS, sizes, REPEATS, device)
    compute = measure_ranks(device, sweeps)
    lines = sweeps.lines()
    lines["send-receive"] = worst(measure_pairs([str(rank) for rank in range(WORLD)], sizes, REPEATS, device))
    return with_links(compute, lines, place.world_size, place.local_world_size)


def rank_steps(place: RankPlace, spec: RecipeSpec, num_steps: int, block: int, addresses: Sequence[str]) -> Measured:
    """In a rank: train, and look at the peak of all steps, the first ones too."""
    device = torch.device("cpu")
    process_group.join(place, device)
    training = prepared(spec, place)
    settle(training)
    restart_peak(device)
    for step in range(1, WARM_STEPS + 1):
        take_step(training, step)
    look = Pace(addresses) if place.rank == 0 else None
    seconds: list[float] = []
    looks = [_look(look)]
    while len(seconds) < num_steps:
        for _ in range(block):
            started = time.perf_counter()
            take_step(training, WARM_STEPS + len(seconds) + 1)
            seconds.append(time.perf_counter() - started)
        looks.append(_look(look))
    dist.barrier()
    peak = peak_bytes(device)
    dist.barrier()  # who ends leaves the others a larger part of what they share
    return Measured([peak], seconds, [(looks[at // block] + looks[at // block + 1]) / 2 for at in range(len(seconds))])


def _look(look: Pace | None) -> float:
    """Return how long the small model takes just now; all ranks wait for it."""
    dist.barrier()
    return max(gather_all(look() if look else 0.0))


def compare(plans: Mapping[str, Case], found_by: Calibrated, num_steps: int) -> list[Compared]:
    """Return what is predicted and measured of each plan, in ``num_steps`` or more."""
    node = NodeFacts("bench", 1, "cpu", os.cpu_count() or 1, memory_bytes=2**34, host="bench")
    found = []
    with pacers(WORLD) as addresses:
        for name, plan in plans.items():
            spec = spec_of(name, plan)
            predicted = estimate(spec, [node] * spec.world_size(), found_by.rates, DataFacts())
            expected = predicted.step_time.total
            steps = max(num_steps, min(MOST_STEPS, int(num_steps / STEPS * LEAST_S / expected)))
            block = max(1, min(steps, round(BLOCK_S / expected)))
            ranks: list[Measured] = []
            for _ in range(RUNS):
                run = on_ranks(spec.world_size(), rank_steps, spec, steps, block, addresses, is_forked=True)
                ranks = [one | other for one, other in zip(ranks, run, strict=True)] if ranks else run
            found.append(Compared(name, predicted, ranks, found_by.model_s))
    return found


def rows() -> list[Row]:
    compared = compare(PLANS, calibrated(), scaled(STEPS, least=5))
    memory = [(is_inside(*one.memory, MEMORY_RANGE), error(*one.memory)) for one in compared]
    steps = [(is_inside(*one.seconds, TIME_RANGE), error(*one.seconds)) for one in compared]
    return [
        *(row for one in compared for row in rows_of(one)),
        hits("memory", goals.PLAN_MEMORY, memory),
        hits("time of a step", goals.PLAN_STEP, steps),
    ]


def is_inside(predicted: float, measured: float, share: float) -> bool:
    """Return whether the measured value is in the range around what was predicted."""
    return (1 - share) * predicted <= measured <= (1 + share) * predicted


def rows_of(one: Compared) -> list[Row]:
    """Return what was predicted and measured of a plan: memory and the time of a step."""
    (memory, held), (seconds, taken) = one.memory, one.seconds
    peaks = [peak / 2**20 for rank in one.ranks for peak in rank.peaks]
    steps = [1e3 * value for rank in one.steps for value in rank]
    drift = f"; the machine took {one.drift:.2f} times as long as then; as it was {100 * error(*one.as_it_was):+.0f} %"
    return [
        Row(
            f"{one.name}: memory",
            memory / 2**20,
            "MiB",
            held / 2**20,
            "measured",
            note=verdict(memory, held, MEMORY_RANGE, 2**20, "MiB"),
            spread=spread_of(peaks),
        ),
        Row(
            f"{one.name}: step",
            1e3 * seconds,
            "ms",
            1e3 * taken,
            "measured",
            note=verdict(seconds, taken, TIME_RANGE, 1e-3, "ms") + drift,
            spread=spread_of(steps),
        ),
    ]


def verdict(predicted: float, measured: float, share: float, scale: float, unit: str) -> str:
    """Return whether the measured value lies in the range, in words."""
    word = "inside" if is_inside(predicted, measured, share) else "outside"
    low, high = ((1 + sign * share) * predicted / scale for sign in (-1, 1))
    return f"{word} of {low:.3g} to {high:.3g} {unit}, off by {100 * error(predicted, measured):+.0f} %"


def hits(what: str, goal: Goal, found: list[tuple[bool, float]]) -> Row:
    off = sorted(100 * abs(value) for _, value in found)
    return Row(
        f"planner, {what}: plans of {len(found)} whose measured value is in the range",
        sum(is_hit for is_hit, _ in found),
        "plans",
        None,
        "measured",
        is_less_better=False,
        goal=goal,
        others={"median off by %": statistics.median(off), "worst": off[-1]},
    )
