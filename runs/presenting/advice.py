"""Advice after a run: changes that its measurements say would save time, each with how much. Pure."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from runs.presenting.measured import Measured
from runs.records.time_use.split import TimeUse
from trainyard.contract.base import JsonObject, SpecDocument
from trainyard.formats.figures import count, percent, seconds, size

LEAST_GAIN = 0.03  # of the time: less is not worth a change
MOST = 3
FEW = 0.01  # the share of the time that checkpoints may take
LEAST_STEPS = 20  # over which steps were measured
ROOM = 2.5  # times its memory that a rank has, from where it need not compute activations twice
AGAIN = 0.25  # of forward and backward: the second forward, by which full checkpointing makes 3 parts 4


class Advice(NamedTuple):
    """What was measured, what to change, the share of the time that it saves, and the fields of the spec by path."""

    measured: str
    change: str
    gain: float
    changes: JsonObject


def advice_of(
    spec: SpecDocument, measured: Measured | None, time: TimeUse, num_nodes: int, memory_limit: float | None
) -> list[Advice]:
    """Return at most three changes, the largest gain first. ``memory_limit``: bytes that one rank has, where known."""
    found = sorted([*_checkpoints(spec, time), *_trained_again(spec, time)], key=lambda one: one.gain)[-1:]
    if measured and (measured["num_steps"] or 0) >= LEAST_STEPS:
        found += [
            *_communication(spec, measured, num_nodes),
            *_data(measured),
            *_activations(spec, measured, memory_limit),
        ]
    return sorted((one for one in found if one.gain >= LEAST_GAIN), key=lambda one: -one.gain)[:MOST]


def _checkpoints(spec: SpecDocument, time: TimeUse) -> Iterator[Advice]:
    """Checkpoints so far apart that they take FEW of the time."""
    every, steps = _of(spec, "checkpoint", "every_steps", 100), _of(spec, "train", "steps", 300)
    trained = time.productive_s + time.checkpoint_s
    share = time.checkpoint_s / trained if trained else 0.0
    wanted = min(steps, every * math.ceil(share / FEW)) if every else 0
    if wanted > every:
        yield Advice(
            f"Checkpoints took {percent(share)} of the time, one after each {_steps(every)}.",
            f"Save one after each {_steps(wanted)}",
            share * (1 - every / wanted),
            {"checkpoint.every_steps": wanted},
        )


def _trained_again(spec: SpecDocument, time: TimeUse) -> Iterator[Advice]:
    """Checkpoints twice as often, where restarts trained much again: half of it is behind the newest one then."""
    every = _of(spec, "checkpoint", "every_steps", 100)
    share = time.recomputed_s / time.total_s if time.total_s else 0.0
    cost = time.checkpoint_s / time.total_s if time.total_s else 0.0
    if every > 1:
        yield Advice(
            f"{percent(share)} of the time went into steps that a restart trained again.",
            f"Save one after each {_steps(every // 2)}",
            share / 2 - cost,
            {"checkpoint.every_steps": every // 2},
        )


def _communication(spec: SpecDocument, measured: Measured, num_nodes: int) -> Iterator[Advice]:
    """A small model on many ranks: one node computes all of it sooner than many agree; else a batch twice as large."""
    parts = measured["step_time"]
    total, compute, waiting = parts.get("total"), parts.get("compute"), parts.get("communication")
    if not total or compute is None or not waiting or measured["num_ranks"] < 2:
        return
    said = f"Ranks waited for each other in {percent(waiting / total)} of each step."
    alone = (compute + (parts.get("data") or 0.0)) * num_nodes + (parts.get("optimizer") or 0.0)
    parallel = spec.get("parallel", {})
    is_whole = all(parallel.get(name, 1) == 1 for name in ("shard", "tensor", "context"))
    is_whole = is_whole and parallel.get("pipeline", {}).get("stages", 1) == 1  # so that one rank has room for it
    if num_nodes > 1 and measured["num_ranks"] == num_nodes and is_whole and alone < total:
        change = (
            f"Train on one node: a step takes {seconds(alone)} there, by what was measured, and {seconds(total)} here"
        )
        yield Advice(said, change, 1 - alone / total, {"resources.nodes": 1})
    else:
        batch, steps = _of(spec, "train", "batch_size", 32), _of(spec, "train", "steps", 300)
        change = f"Train on batches of {count(2 * batch)}, in half as many steps: look at the learning rate then"
        halved = {"train.batch_size": 2 * batch, "train.steps": max(1, steps // 2)}
        yield Advice(said, change, waiting / total / 2, halved)


def _data(measured: Measured) -> Iterator[Advice]:
    parts = measured["step_time"]
    if parts.get("total") and parts.get("data"):
        share = (parts["data"] or 0.0) / (parts["total"] or 1.0)
        change = "Keep the data on the nodes, or make its rows cheaper to read: no field of the form changes that"
        yield Advice(f"Ranks waited for data in {percent(share)} of each step.", change, share, {})


def _activations(spec: SpecDocument, measured: Measured, limit: float | None) -> Iterator[Advice]:
    parts, peak = measured["step_time"], max((one or 0.0 for one in measured["memory"].values()), default=0.0)
    compute, total = parts.get("compute"), parts.get("total")
    is_full = spec.get("train", {}).get("activation_checkpointing") == "full"
    if is_full and compute and total and limit and 0 < peak * ROOM < limit:
        said = f"Activations were computed twice, and a rank used {size(peak)} of {size(limit)}."
        changes: JsonObject = {"train.activation_checkpointing": "none"}
        yield Advice(said, "Keep them in memory", AGAIN * compute / total, changes)


def _of(spec: SpecDocument, section: str, field: str, usual: int) -> int:
    return int(spec.get(section, {}).get(field, usual))


def _steps(number: int) -> str:
    return "step" if number == 1 else f"{count(number)} steps"
