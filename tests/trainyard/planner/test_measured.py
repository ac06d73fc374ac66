"""The twelve plans of the benchmark, other than those that set the margin: peaks of memory that were measured on two
ranks of one machine lie in the range."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).parent))  # plans.py stands beside the tests
from plans import MIB, NODE, RATES, spec_of

from trainyard.planner import estimate


def gpt(layers: int, width: int, heads: int, context: int = 128, **others: Any) -> dict[str, Any]:
    return {"model": {"layers": layers, "width": width, "heads": heads, "context": context}, **others}


def image(architecture: str, width: int) -> dict[str, Any]:
    return {"recipe": "image-classifier", "model": {"architecture": architecture, "layers": 6, "width": width}}


# MiB at the peak, the mean of the ranks and of two measurements, and what was trained.
MEASURED: dict[float, dict[str, Any]] = {
    214: gpt(4, 128, 4, batch_size=32),
    342: gpt(6, 192, 6, 256, batch_size=16),
    370: gpt(4, 256, 4, batch_size=32, parallel={"shard": 2}),
    275: gpt(4, 128, 4, batch_size=32, parallel={"tensor": 2}),
    213.5: gpt(8, 128, 4, batch_size=32, parallel={"pipeline": {"stages": 2}}),
    439: gpt(6, 256, 4, batch_size=16, optimizer="sgd", world=1),
    241.5: gpt(4, 192, 6, batch_size=64, accumulate=4),
    267: gpt(6, 192, 6, 256, batch_size=16, activation_checkpointing="full"),
    518: gpt(3, 320, 5, batch_size=64, optimizer="sgd"),
    237: image("vit", 128) | {"batch_size": 256},
    128.5: image("resnet", 32) | {"batch_size": 64},
    551: {"recipe": "tabular", "model": {"layers": 6, "width": 1024}, "batch_size": 128},
}


def test_what_ranks_held_is_in_the_range_of_eleven_plans_of_twelve() -> None:
    before = {"base_memory_bytes": 107 * MIB, "shared_memory_bytes": 217 * MIB, "sharers": 3.0, "forked": 2.0}
    rates, node = msgspec.structs.replace(RATES, **before), replace(NODE, host="one", cores=2)
    hits = 0
    for held, changes in MEASURED.items():
        spec = spec_of(**{"world": 2, "checkpoint": {"every_steps": 0}, **changes})
        fullest = max(estimate(spec, [node] * spec.world_size(), rates).memory, key=lambda memory: memory.total)
        hits += fullest.low <= held * MIB <= fullest.high
    assert hits >= 11
