"""Which kinds of parallelism go together: one table, and what follows from it. Each entry was trained to parity."""

from __future__ import annotations

from collections.abc import Iterator

from trainyard.spec.models import RecipeSpec
from trainyard.spec.problems import Problem

AXES = ("data", "shard", "tensor", "pipeline")

# The axes whose degree is above 1. Their product is one device mesh.
SYNCHRONOUS: frozenset[frozenset[str]] = frozenset(
    map(
        frozenset,
        (
            (),
            ("data",),
            ("shard",),
            ("tensor",),
            ("pipeline",),
            ("data", "shard"),  # hybrid-sharded
            ("data", "tensor"),
            ("data", "pipeline"),
            ("shard", "tensor"),
            ("shard", "pipeline"),
            ("tensor", "pipeline"),
            ("data", "shard", "tensor"),
            ("data", "shard", "pipeline"),
            ("data", "tensor", "pipeline"),
            ("shard", "tensor", "pipeline"),
        ),
    )
)

# What a setting can be combined with; a setting that is not here goes with every product above.
ONLY_WITH: dict[tuple[str, str], frozenset[str]] = {
    ("parallel.synchronization.kind", "local-sgd"): frozenset({"data"}),
    ("parallel.synchronization.kind", "diloco"): frozenset({"data"}),
    ("parallel.synchronization.kind", "parameter-server"): frozenset({"data"}),
    ("parallel.compression", "fp16"): frozenset({"data"}),
    ("parallel.compression", "bf16"): frozenset({"data"}),
    ("parallel.compression", "powersgd"): frozenset({"data"}),
    ("train.optimizer", "muon"): frozenset({"data", "pipeline"}),  # it needs whole matrices
    ("train.precision", "fp16"): frozenset({"data", "shard"}),  # one scale for all, and overflow seen by all
    ("train.find_batch_size", "memory"): frozenset({"data", "shard"}),
    ("train.find_batch_size", "throughput"): frozenset({"data", "shard"}),
}


def degrees_of(spec: RecipeSpec) -> dict[str, int]:
    """Return the degree of each axis; data is 0 where the others do not divide the world size."""
    parallel = spec.parallel
    inner = parallel.shard * parallel.tensor * parallel.pipeline.stages
    world = spec.world_size()
    data = world // inner if parallel.data == "auto" and world % inner == 0 else parallel.data
    return {
        "data": data if isinstance(data, int) else 0,
        "shard": parallel.shard,
        "tensor": parallel.tensor,
        "pipeline": parallel.pipeline.stages,
    }


def product_problems(spec: RecipeSpec) -> Iterator[Problem]:
    """Yield what of the spec's combination is not in the table."""
    degrees = degrees_of(spec)
    used = frozenset(axis for axis in AXES if degrees[axis] > 1)
    if used not in SYNCHRONOUS:
        names = " x ".join(f"{axis} {degrees[axis]}" for axis in AXES if axis in used)
        yield Problem("parallel", f"{names} is a product that is not built; at most three kinds go together")
    settings = {
        "parallel.synchronization.kind": spec.parallel.synchronization.kind,
        "parallel.compression": spec.parallel.compression,
        "train.optimizer": spec.train.optimizer,
        "train.precision": spec.train.precision,
        "train.find_batch_size": spec.train.find_batch_size,
    }
    for path, value in settings.items():
        allowed = ONLY_WITH.get((path, value))
        if allowed is not None and used - allowed:
            others = ", ".join(f"parallel.{axis} {degrees[axis]}" for axis in AXES if axis in used - allowed)
            yield Problem(path, f"{value} goes with {' and '.join(sorted(allowed))} only, not with {others}")
