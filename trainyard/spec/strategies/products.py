"""Kinds of parallelism that go together, and settings that refuse some. Each product was trained to parity."""

from collections.abc import Iterator

from trainyard.spec.models import RecipeSpec
from trainyard.spec.problems import Problem
from trainyard.spec.sections.parallel import KIND
from trainyard.spec.strategies import AXES as TABLE
from trainyard.spec.strategies import STRATEGIES, Limit, of_axis
from trainyard.spec.strategies.mesh import AXES
from trainyard.spec.strategies.strategy import chosen

_SPLIT = frozenset({"data", "shard"})
_FOUND = Limit(_SPLIT, "all ranks try the same size of batch on a whole model", only_every_step=True)
# Of strategies that a value chooses, and of other settings.
LIMITS: dict[tuple[str, str], Limit] = {
    **{(one.path, value): one.limit for one in STRATEGIES if one.limit is not None for value in one.values},
    ("train.optimizer", "muon"): Limit(frozenset({"data", "pipeline"}), "it needs whole matrices"),
    ("train.precision", "fp16"): Limit(_SPLIT, "all ranks must agree on one scale of the loss", only_every_step=True),
    ("train.find_batch_size", "memory"): _FOUND,
    ("train.find_batch_size", "throughput"): _FOUND,
    ("train.find_batch_size", "noise-scale"): Limit(
        frozenset({"data"}), "gradients of single passes are compared on a whole model", only_every_step=True
    ),
    ("train.find_learning_rate", "range-test"): Limit(
        _SPLIT, "rates are tried on a whole model before the training", only_every_step=True
    ),
}


def product_problems(spec: RecipeSpec) -> Iterator[Problem]:
    """Yield what of the spec's combination is not in the tables. Its degrees multiply to the world size."""
    degrees = spec.mesh().used
    yield from _axis_problems(degrees)
    for path in dict.fromkeys(path for path, _ in LIMITS):
        value = chosen(spec, path)
        limit = LIMITS.get((path, value))
        if limit and (message := _broken(limit, degrees, spec)):
            yield Problem(path, f"{value} goes with {message}")


def _axis_problems(degrees: dict[str, int]) -> Iterator[Problem]:
    """Yield the axes that are not trained together."""
    for axis, degree in degrees.items():
        limit = of_axis(axis).limit
        if limit and (words := _beside(limit, {one: many for one, many in degrees.items() if one != axis})):
            yield Problem(field_of(axis), f"{degree} goes with {words}")


def _beside(limit: Limit, degrees: dict[str, int]) -> str:
    """Say which axes ``limit`` allows and which there are beside them; nothing where there are none."""
    others = ", ".join(f"{field_of(axis)} {degree}" for axis, degree in degrees.items() if axis not in limit.axes)
    allowed = " and ".join(field_of(axis) for axis in AXES if axis in limit.axes)
    return f"{allowed} only, since {limit.why}; not with {others}" if others else ""


def _broken(limit: Limit, degrees: dict[str, int], spec: RecipeSpec) -> str:
    """Say what ``limit`` allows and what there is instead; nothing where all is well."""
    if words := _beside(limit, degrees):
        return words
    if degrees.get("data", 1) < limit.least_data:
        return f"{limit.least_data} copies of the model or more, not with a data degree of {degrees.get('data', 1)}"
    parallel = spec.parallel
    if limit.only_every_step and parallel.synchronization.kind != "every-step":
        return f"{KIND} every-step only, since {limit.why}; not with {parallel.synchronization.kind}"
    if limit.only_uncompressed and parallel.compression != "none":
        return f"parallel.compression none only, since {limit.why}; not with {parallel.compression}"
    return ""


def field_of(axis: str) -> str:
    """Return the field of the spec that holds the degree of ``axis``."""
    return next(one.path for one in TABLE if one.name == axis)
