"""Other ways to share the same training among the same ranks: which are quickest, of those that fit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainyard.formats.figures import rate, size
from trainyard.planner.estimating import estimate
from trainyard.planner.machines.facts import DataFacts, NodeFacts
from trainyard.planner.machines.rates import Rates
from trainyard.planner.results import Estimate, Proposal
from trainyard.spec.models import RecipeSpec
from trainyard.spec.rules import broken_rules
from trainyard.spec.strategies.microbatches import accepted_microbatches
from trainyard.spec.strategies.pipeline import num_chunks
from trainyard.spec.strategies.tensor import shared_by_tensor

MOST_CANDIDATES = 48  # each costs about a millisecond
PATHS = {
    "parallel.data": "data",
    "parallel.shard": "shard",
    "parallel.tensor": "tensor",
    "parallel.pipeline.stages": "pipeline stages",
    "parallel.pipeline.microbatches": "microbatches",
    "parallel.pipeline.schedule": "schedule",
    "parallel.reshard_after_forward": "reshard after forward",
    "train.accumulate": "accumulate",
    "train.activation_checkpointing": "activation checkpointing",
}
SEARCHED = ("data", "shard", "tensor", "pipeline")  # axes; the degrees of others stay as they were asked for
Degrees = tuple[int, int, int, int]  # in the order of SEARCHED


def best_plans(
    spec: RecipeSpec, nodes: Sequence[NodeFacts], rates: Rates, data: DataFacts | None = None, count: int = 3
) -> list[Proposal]:
    """Return the ``count`` plans of most units a second that fit, quickest first: other degrees of parallelism,
    microbatches and passes, for the same batch on the same ranks. Fewer where no more are valid and fit.

    Raises ValueError where there is no node.
    """
    present = _estimated(spec, nodes, rates, data)
    tried = [(spec, present)] if present else []
    tried += [(other, made) for other in _candidates(spec) if (made := _estimated(other, nodes, rates, data))]
    if not any(made.fits for _, made in tried):
        saving = [_changed(other, {"train.activation_checkpointing": "full"}) for other, _ in tried]
        tried = [(other, made) for other in saving if (made := _estimated(other, nodes, rates, data))]
    fitting = sorted((one for one in tried if one[1].fits), key=lambda one: -one[1].units_per_second)
    found: dict[Degrees, Proposal] = {}
    for other, made in fitting:
        degrees = _degrees(other)
        if degrees not in found:
            changes = _changes(spec, other)
            found[degrees] = Proposal(changes, made, _sentence(spec, other, changes, present, made))
        if len(found) == count:
            break
    return list(found.values())


def _estimated(spec: RecipeSpec, nodes: Sequence[NodeFacts], rates: Rates, data: DataFacts | None) -> Estimate | None:
    """Return the estimate of a spec that keeps the rules; None for another."""
    if any(True for _ in broken_rules(spec)):
        return None
    return estimate(spec, nodes, rates, data)


def _candidates(spec: RecipeSpec) -> Iterator[RecipeSpec]:
    """Yield the spec with other degrees, then with more microbatches or passes; at most MOST_CANDIDATES."""
    left = MOST_CANDIDATES
    for data, shard, tensor, stages in _products(spec):
        degrees: dict[str, Any] = {
            "parallel.data": "auto" if spec.parallel.data == "auto" else data,
            "parallel.shard": shard,
            "parallel.tensor": tensor,
            "parallel.pipeline.stages": stages,
        }
        if shard == 1:
            degrees["parallel.reshard_after_forward"] = True
        if stages == 1:
            degrees |= {"parallel.pipeline.microbatches": "auto", "parallel.pipeline.schedule": "1f1b"}
        for more in _variants(spec, data * shard, stages):
            if left == 0:
                return
            left -= 1
            yield _changed(spec, degrees | more)


def _variants(spec: RecipeSpec, parts: int, stages: int) -> Iterator[dict[str, Any]]:
    """Yield how the rows of a copy's batch may flow: in as few passes as can be, and in those that were asked for."""
    for accumulate in sorted({1, spec.train.accumulate}):
        if spec.train.batch_size % (accumulate * parts):
            continue
        rows = spec.train.batch_size // (accumulate * parts)
        if stages == 1:
            yield {"train.accumulate": accumulate}
            continue
        accepted = [one for one in accepted_microbatches("1f1b", stages, rows) if one <= 8 * stages]
        for number in {accepted[-1], max((one for one in accepted if one <= 2 * stages), default=1)}:
            yield {
                "train.accumulate": accumulate,
                "parallel.pipeline.microbatches": number,
                "parallel.pipeline.schedule": "1f1b",
            }


def _products(spec: RecipeSpec) -> Iterator[Degrees]:
    """Yield the degrees that multiply to the world size and that model and batch allow, plain ones first."""
    shared = shared_by_tensor(spec.task)
    world = math.prod(_degrees(spec))
    most_stages = spec.task.model.layers // num_chunks(spec)
    found: list[Degrees] = []
    for tensor in _divisors(world):
        if tensor > 1 and (not shared or any(number % tensor for number in shared.values())):
            continue
        for stages in _divisors(world // tensor):
            if stages > most_stages:
                continue
            parts = world // tensor // stages
            if spec.train.batch_size % parts == 0:
                found += [(parts // shard, shard, tensor, stages) for shard in _divisors(parts)]
    yield from sorted(found, key=lambda degrees: (sum(one > 1 for one in degrees), degrees[2] * degrees[3]))


def _divisors(number: int) -> list[int]:
    return [one for one in range(1, number + 1) if number % one == 0]


def _changed(spec: RecipeSpec, changes: Mapping[str, Any]) -> RecipeSpec:
    """Return a copy of ``spec`` with the dotted paths set. Nothing is checked."""
    pipeline = {path.rpartition(".")[2]: value for path, value in changes.items() if path.count(".") == 2}
    parallel = {
        path.partition(".")[2]: value
        for path, value in changes.items()
        if path.startswith("parallel.") and path.count(".") == 1
    }
    train = {path.partition(".")[2]: value for path, value in changes.items() if path.startswith("train.")}
    parallel["pipeline"] = spec.parallel.pipeline.model_copy(update=pipeline)
    return spec.model_copy(
        update={
            "parallel": spec.parallel.model_copy(update=parallel),
            "train": spec.train.model_copy(update=train),
        }
    )


def _changes(spec: RecipeSpec, other: RecipeSpec) -> dict[str, Any]:
    return {path: _look(other, path) for path in PATHS if _look(other, path) != _look(spec, path)}


def _look(spec: RecipeSpec, path: str) -> Any:
    value: Any = spec
    for name in path.split("."):
        value = getattr(value, name)
    return value


def _degrees(spec: RecipeSpec) -> Degrees:
    data, shard, tensor, stages = map(spec.mesh().degree, SEARCHED)
    return data, shard, tensor, stages


def _sentence(
    spec: RecipeSpec, other: RecipeSpec, changes: Mapping[str, Any], present: Estimate | None, made: Estimate
) -> str:
    """Return what the plan would be, beside the one that was asked for."""
    if not changes:
        return "The plan as it is."
    words = _instead(spec, other, changes)
    if present is None:
        return f"{words}: {rate(made.units_per_second, made.unit)}."
    peak, before = (max(memory.total for memory in one.memory) for one in (made, present))
    less = f"needs {size(abs(peak - before))} {'less' if peak < before else 'more'}"
    if abs(peak - before) < 0.01 * before:
        less = "needs as much memory"
    speed = made.units_per_second / present.units_per_second - 1
    pace = "as quick" if abs(speed) < 0.005 else f"{100 * abs(speed):.0f} % {'quicker' if speed > 0 else 'slower'}"
    return f"{words}: {less}{' and fits' if not present.fits else ''}, {pace}."


def _instead(spec: RecipeSpec, other: RecipeSpec, changes: Mapping[str, Any]) -> str:
    """Return which degrees come in place of which."""

    def named(one: RecipeSpec) -> str:
        above = [f"{name} {degree}" for name, degree in zip(SEARCHED, _degrees(one), strict=True) if degree > 1]
        return " x ".join(above) or "one rank"

    others = [path for path in changes if path in ("train.accumulate", "train.activation_checkpointing")]
    parts = [f"{PATHS[path]} {changes[path]}" for path in others]
    if _degrees(spec) != _degrees(other):
        parts.insert(0, f"{named(other)} in place of {named(spec)}")
    elif not parts:
        parts = [f"{PATHS[path]} {value}" for path, value in changes.items()]
    text = ", ".join(parts)
    return text[0].upper() + text[1:]
