"""Which kinds of parallelism go together: two tables, and what follows. Each product was trained to parity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trainyard.spec.models import RecipeSpec
from trainyard.spec.problems import Problem
from trainyard.spec.sections.parallel import KIND
from trainyard.spec.strategies.mesh import AXES

# The axes whose degree is above 1, and what that is called. Their product is one device mesh.
SYNCHRONOUS: dict[frozenset[str], str] = {
    frozenset(axes): name
    for axes, name in {
        (): "one process",
        ("data",): "data parallel (DDP)",
        ("shard",): "sharded data parallel (FSDP2, ZeRO-3; ZeRO-2 without reshard_after_forward)",
        ("tensor",): "tensor parallel, with sequence and loss parallel",
        ("pipeline",): "pipeline, or the plain layer-wise split",
        ("data", "shard"): "hybrid-sharded (HSDP)",
        ("data", "tensor"): "copies of a model that tensor ranks share",
        ("data", "pipeline"): "copies of a pipeline",
        ("shard", "tensor"): "tensor ranks whose cut weights are sharded again",
        ("shard", "pipeline"): "a pipeline whose stages are sharded",
        ("tensor", "pipeline"): "a pipeline whose stages are tensor parallel",
        ("data", "shard", "tensor"): "hybrid-sharded, tensor parallel",
        ("data", "shard", "pipeline"): "hybrid-sharded stages of a pipeline",
        ("data", "tensor", "pipeline"): "copies of a pipeline whose stages are tensor parallel",
        ("shard", "tensor", "pipeline"): "a pipeline whose stages are tensor parallel and sharded",
        ("data", "shard", "tensor", "pipeline"): "hybrid-sharded, tensor parallel stages of a pipeline",
    }.items()
}


class Limit(NamedTuple):
    """What one value of a setting goes with. Whatever has no Limit goes with every product above."""

    axes: frozenset[str]  # that may be above 1
    why: str
    least_data: int = 1
    only_every_step: bool = False
    only_uncompressed: bool = False


DATA = frozenset({"data"})
_LOCAL = Limit(DATA, "each rank trains a whole model of its own for a while", least_data=2)
_COMPRESSED = Limit(DATA, "it is what DDP sends that is compressed", least_data=2, only_every_step=True)
_FOUND = Limit(
    frozenset({"data", "shard"}), "all ranks try the same size of batch on a whole model", only_every_step=True
)
LIMITS: dict[tuple[str, str], Limit] = {
    (KIND, "local-sgd"): _LOCAL,
    (KIND, "diloco"): _LOCAL,
    (KIND, "parameter-server"): _LOCAL._replace(why="each rank sends rank 0 the gradients of a whole model"),
    ("parallel.compression", "fp16"): _COMPRESSED,
    ("parallel.compression", "bf16"): _COMPRESSED,
    ("parallel.compression", "powersgd"): _COMPRESSED,
    ("parallel.balance", "speed"): Limit(
        DATA,
        "a copy's share of the batch is its own to choose",
        least_data=2,
        only_every_step=True,
        only_uncompressed=True,
    ),
    ("train.optimizer", "muon"): Limit(frozenset({"data", "pipeline"}), "it needs whole matrices"),
    ("train.precision", "fp16"): Limit(
        frozenset({"data", "shard"}), "all ranks must agree on one scale of the loss", only_every_step=True
    ),
    ("train.find_batch_size", "memory"): _FOUND,
    ("train.find_batch_size", "throughput"): _FOUND,
}


def product_problems(spec: RecipeSpec) -> Iterator[Problem]:
    """Yield what of the spec's combination is not in the tables. Its degrees multiply to the world size."""
    degrees = spec.mesh().used
    assert frozenset(degrees) in SYNCHRONOUS, "every product of the axes has its row"
    chosen: dict[str, str] = {
        KIND: spec.parallel.synchronization.kind,
        "parallel.compression": spec.parallel.compression,
        "parallel.balance": spec.parallel.balance,
        "train.optimizer": spec.train.optimizer,
        "train.precision": spec.train.precision,
        "train.find_batch_size": spec.train.find_batch_size,
    }
    for path, value in chosen.items():
        limit = LIMITS.get((path, value))
        message = _broken(limit, degrees, chosen) if limit else ""
        if message:
            yield Problem(path, f"{value} goes with {message}")


def _broken(limit: Limit, degrees: dict[str, int], chosen: dict[str, str]) -> str:
    """Say what ``limit`` allows and what there is instead; nothing where all is well."""
    others = ", ".join(f"{field_of(axis)} {degree}" for axis, degree in degrees.items() if axis not in limit.axes)
    if others:
        allowed = " and ".join(field_of(axis) for axis in AXES if axis in limit.axes)
        return f"{allowed} only, since {limit.why}; not with {others}"
    if degrees.get("data", 1) < limit.least_data:
        return f"{limit.least_data} copies of the model or more, not with a data degree of {degrees.get('data', 1)}"
    if limit.only_every_step and chosen[KIND] != "every-step":
        return f"{KIND} every-step only, since {limit.why}; not with {chosen[KIND]}"
    if limit.only_uncompressed and chosen["parallel.compression"] != "none":
        return f"parallel.compression none only, since {limit.why}; not with {chosen['parallel.compression']}"
    return ""


def field_of(axis: str) -> str:
    """Return the field of the spec that holds the degree of ``axis``."""
    return "parallel.pipeline.stages" if axis == "pipeline" else f"parallel.{axis}"
