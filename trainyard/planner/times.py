"""How long a rank computes: each operator by the measured rate of its kind and size, and what calling it costs.

On a CPU the costs add up. A GPU is told what to do ahead of time, so that calling costs only what is longer than the
work itself.
"""

from __future__ import annotations

from typing import NamedTuple

from trainyard.planner.architectures.tape import WHOLE, Section, Work
from trainyard.planner.layout import Layout
from trainyard.planner.machines.rates import Rates
from trainyard.planner.memory import Stage
from trainyard.planner.results import Memory
from trainyard.spec.models import RecipeSpec
from trainyard.spec.strategies import used

# What Python does around the operators, in calls of an operator.
STEP_PACE = 1.08  # of a pass in a training: caches are colder than where one is repeated alone
STEP_CALLS = 60  # the loop, the optimizer's groups, the data
MODULE_CALLS = 6  # of each module that computes: its call forward, its node backward
DISPATCHED_CALLS = 120  # of each operator of a block whose selective checkpointing looks at it, forward and again
OPTIMIZER_BYTES = {"adamw": 28, "sgd": 20, "muon": 28}  # read and written of each number
CLIP_BYTES = 12  # of each gradient: read once for the norm, then read and written
NEWTON_SCHULZ = 5  # iterations of Muon, each of three products (Jordan et al. 2024)
PAGE_BYTES = 4096
GIVEN_BACK_STEPS = 5  # from one giving back of shards' heaps on a CPU to the next: workers/training/measuring/heap.py


class Computing(NamedTuple):
    """Seconds of one pass through a stage's sections."""

    forward: float
    backward: float


def pass_time(spec: RecipeSpec, layout: Layout, stage: Stage, rates: Rates, *, is_gpu: bool) -> Computing:
    """Return the seconds of one pass, or microbatch, through ``stage``."""
    kind = spec.train.activation_checkpointing
    forward = backward = 0.0
    for section, count in stage.counted():
        ahead, back = section_time(section, rates, layout.precision, is_gpu=is_gpu)
        forward += count * ahead
        again = _again(section, layout, rates, kind, is_gpu=is_gpu) if section.entry else 0.0
        backward += count * (back + again)
    calls = sum(way.calls(layout, stage) for way in used(spec, layout.mesh))
    overhead = calls * rates.operator_s / 2
    pace = rates.pace if is_gpu else STEP_PACE * rates.pace
    return Computing(pace * forward + overhead, pace * backward + overhead)


def section_time(section: Section, rates: Rates, precision: str = "fp32", *, is_gpu: bool) -> Computing:
    """Return the seconds of one pass through a section, operator by operator."""
    found = []
    for is_forward in (True, False):
        work = calls = 0.0
        for one in section.works:
            number = one.forward if is_forward else one.backward
            work += number * _work_time(one, rates, precision, is_gpu=is_gpu)
            calls += 1.0 if one.kind == "attention" and number else number
        called = (calls + MODULE_CALLS / 2 * section.num_modules) * rates.operator_s
        found.append(max(work, called) if is_gpu else work + called)
    return Computing(*found)


def _work_time(one: Work, rates: Rates, precision: str, *, is_gpu: bool) -> float:
    """Return the seconds of one operator, beside what calling it costs. A GPU has all pieces at once."""
    size = one.size if is_gpu else one.piece or one.size
    return one.size / rates.rate(one.kind, size, precision) if size else 0.0


def _again(section: Section, layout: Layout, rates: Rates, kind: str, *, is_gpu: bool) -> float:
    """Return the seconds of what activation checkpointing computes again: all, or what is not dear."""
    if kind == "none":
        return 0.0
    again = 0.0
    for one in section.works:
        if kind == "full" or one.kind not in ("matmul", "attention", "convolution"):
            again += one.forward * (_work_time(one, rates, layout.precision, is_gpu=is_gpu) + rates.operator_s)
    calls = sum(one.forward for one in section.works if one.kind != "attention") + 1
    return again + (DISPATCHED_CALLS * calls * rates.operator_s if kind == "selective" else 0.0)


def optimizer_time(spec: RecipeSpec, layout: Layout, stage: Stage, rates: Rates) -> float:
    """Return the seconds of the optimizer, of the clip and of what a step costs by itself."""
    numbers = sum(stage.weights(layout)) / WHOLE / layout.mesh.shard
    size = numbers * OPTIMIZER_BYTES[spec.train.optimizer]
    seconds = size / rates.rate("optimizer", size) if size else 0.0
    clip = numbers * CLIP_BYTES
    seconds += clip / rates.rate("move", clip) if spec.train.gradient_clip and clip else 0.0
    num_tensors = sum(len(section.parameters) for section in stage.sections)
    seconds += (STEP_CALLS + 2 * num_tensors) * rates.operator_s
    if spec.train.optimizer == "muon":
        seconds += _newton_schulz(stage, rates)
    return seconds


def refill_time(layout: Layout, memory: Memory, rates: Rates, *, is_gpu: bool) -> float:
    """Return the seconds in which a step finds pages anew that shards' heaps have given back: their part of it."""
    if is_gpu or layout.mesh.shard == 1:
        return 0.0
    return rates.fault_s * memory.activations / PAGE_BYTES / GIVEN_BACK_STEPS


def _newton_schulz(stage: Stage, rates: Rates) -> float:
    seconds = 0.0
    for section, count in stage.counted():
        for one in section.parameters:
            if section.entry and len(one.shape) == 2:
                small, large = sorted(one.shape)
                for flops in (2.0 * small**2 * large, 2.0 * small**3, 2.0 * small**2 * large):
                    seconds += count * NEWTON_SCHULZ * flops / rates.rate("matmul", flops, "bf16")
                seconds += count * NEWTON_SCHULZ * 6 * rates.operator_s
    return seconds
