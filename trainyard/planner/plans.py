"""Other ways to share the same training among the same ranks: which are quickest, of those that fit."""

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import islice
from math import prod
from typing import Any, TypeVar

from pydantic import BaseModel

from trainyard.contract.base import JsonObject
from trainyard.formats.figures import rate, size
from trainyard.planner.estimating import estimate
from trainyard.planner.machines import DataFacts, NodeFacts, Rates
from trainyard.planner.results import Estimate, Proposal
from trainyard.spec.models import RecipeSpec
from trainyard.spec.rules import broken_rules
from trainyard.spec.strategies import AXES
from trainyard.spec.strategies.pipeline import accepted_microbatches

MOST_CANDIDATES = 48  # each costs about a millisecond
MOST_TRIED = 400  # of which most break a rule, which is found out sooner
PIECES = {"parallel.pipeline.microbatches": "auto", "parallel.pipeline.schedule": "1f1b"}
RESHARD, ACCUMULATE, CHECKPOINTING = (
    "parallel.reshard_after_forward", "train.accumulate", "train.activation_checkpointing",
)  # fmt: skip
PATHS = (*(axis.path for axis in AXES), *PIECES, RESHARD, ACCUMULATE, CHECKPOINTING)
Tried = tuple[RecipeSpec, Estimate]
M = TypeVar("M", bound=BaseModel)


def best_plans(
    spec: RecipeSpec, nodes: Sequence[NodeFacts], rates: Rates, data: DataFacts | None = None, count: int = 3
) -> list[Proposal]:
    """Return the ``count`` plans of most units a second that fit, quickest first: other degrees of parallelism,
    microbatches and passes, for the same batch on the same ranks. Fewer where no more are valid and fit.

    Raises ValueError where there is no node.
    """

    def estimated(others: Iterator[RecipeSpec]) -> Iterator[Tried]:
        return ((one, estimate(one, nodes, rates, data)) for one in others if not any(True for _ in broken_rules(one)))

    own = next(estimated(iter([spec])), None)
    tried = [*([own] if own else []), *islice(estimated(_candidates(spec)), MOST_CANDIDATES)]
    if not any(made.fits for _, made in tried):
        tried = list(estimated(_changed(other, {CHECKPOINTING: "full"}) for other, _ in tried))
    found: dict[tuple[int, ...], Proposal] = {}
    for other, made in sorted(tried, key=lambda one: -one[1].units_per_second):
        if made.fits and len(found) < count and other.mesh().degrees not in found:
            changes = {path: _value(other, path) for path in PATHS if _value(other, path) != _value(spec, path)}
            sentence = _sentence(spec, other, changes, own[1] if own else None, made)
            found[other.mesh().degrees] = Proposal(changes, made, sentence)
    return list(found.values())


def _candidates(spec: RecipeSpec) -> Iterator[RecipeSpec]:
    """Yield the spec with other degrees of all axes, then with more microbatches or passes; some break a rule."""
    for degrees in sorted(_products(spec.world_size(), len(AXES)), key=_plainness)[:MOST_TRIED]:
        of_axis = {axis.name: degree for axis, degree in zip(AXES, degrees, strict=True)}
        changes: JsonObject = {axis.path: of_axis[axis.name] for axis in AXES}
        if spec.parallel.data == "auto":
            changes["parallel.data"] = "auto"
        if of_axis["shard"] == 1:
            changes[RESHARD] = True
        parts = prod(of_axis[axis.name] for axis in AXES if axis.cuts_batch)
        for accumulate in sorted({1, spec.train.accumulate}):
            rows, rest = divmod(spec.train.batch_size, accumulate * parts)
            if rest == 0:
                for number in _microbatches(of_axis["pipeline"], rows):
                    pieces = PIECES | {"parallel.pipeline.microbatches": number}
                    yield _changed(spec, changes | pieces | {ACCUMULATE: accumulate})


def _products(world: int, num_axes: int) -> Iterator[tuple[int, ...]]:
    """Yield the degrees of so many axes that multiply to the world size."""
    if num_axes == 1:
        yield (world,)
        return
    for first in (one for one in range(1, world + 1) if world % one == 0):
        yield from ((first, *others) for others in _products(world // first, num_axes - 1))


def _plainness(degrees: tuple[int, ...]) -> tuple[int, int]:
    """Order the plain ones first: few axes, and of those the ones whose ranks compute rows of their own."""
    inner = (degree for axis, degree in zip(AXES, degrees, strict=True) if not axis.cuts_batch)
    return sum(one > 1 for one in degrees), prod(inner)


def _microbatches(stages: int, rows: int) -> set[int | str]:
    """Return into how many pieces the rows of a copy's pass may be cut: about two a stage, and as many as can be."""
    if stages == 1:
        return {"auto"}
    accepted = [one for one in accepted_microbatches("1f1b", stages, rows) if one <= 8 * stages]
    return {accepted[-1], max((one for one in accepted if one <= 2 * stages), default=1)}


def _changed(spec: M, changes: JsonObject) -> M:
    """Return a copy of ``spec`` with the dotted paths set. Nothing is checked."""
    of_part: dict[str, JsonObject] = {}
    for path, value in changes.items():
        head, _, rest = path.partition(".")
        of_part.setdefault(head, {})[rest] = value
    update = {name: part[""] if "" in part else _changed(getattr(spec, name), part) for name, part in of_part.items()}
    return spec.model_copy(update=update)


def _value(spec: RecipeSpec, path: str) -> Any:
    return reduce(getattr, path.split("."), spec)


def _sentence(
    spec: RecipeSpec, other: RecipeSpec, changes: JsonObject, present: Estimate | None, made: Estimate
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


def _instead(spec: RecipeSpec, other: RecipeSpec, changes: JsonObject) -> str:
    """Return which degrees come in place of which, and what else changes."""
    meshes = [one.mesh().used.items() for one in (spec, other)]
    before, after = (" x ".join(f"{axis} {degree}" for axis, degree in mesh) for mesh in meshes)
    parts = [f"{after or 'one rank'} in place of {before or 'one rank'}"] if before != after else []
    shown = [path for path in changes if path in (ACCUMULATE, CHECKPOINTING)] or ([] if parts else list(changes))
    parts += [f"{path.rpartition('.')[2].replace('_', ' ')} {changes[path]}" for path in shown]
    text = ", ".join(parts)
    return text[0].upper() + text[1:]
