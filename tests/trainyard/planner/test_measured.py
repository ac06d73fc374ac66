"""What was measured lies in the range: of the twelve plans of the benchmark, other than those that set the margin, the
peaks of memory on two ranks of one machine; of eleven plans on a GPU, peaks and steps."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # plans.py stands beside the tests
from plans import GPU, MIB, NODE, RATES, estimated, spec_of

from trainyard.planner import Rates, estimate


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


# An NVIDIA H200 with PyTorch 2.11: its calibration, peaks of the allocator in MiB, and median steps in ms.
H200 = Rates(
    matmul=((1.34e8, 1.39e13), (5.37e8, 2.57e13), (4.83e9, 3.54e13), (1.72e10, 4.86e13), (6.87e10, 5.02e13)),
    memory_bytes_per_s=4.21e12,
    operator_s=9.9e-6,
    base_memory_bytes=64 * MIB,
    kinds={
        "matmul/bf16": ((1.34e8, 2.84e13), (4.83e9, 2.98e14), (3.44e10, 7.01e14), (2.75e11, 8.52e14)),
        "attention": ((5.37e8, 1.61e13), (3.22e9, 2.33e13), (1.72e10, 5.05e13)),
        "attention/bf16": ((5.37e8, 5.49e13), (3.22e9, 1.19e14), (5.15e10, 5.1e14), (5.5e11, 7.58e14)),
        "norm": ((1.05e6, 1.14e11), (2.52e7, 3.31e11), (1.34e8, 9.32e11)),
        "softmax": ((1.68e7, 7.53e11), (6.71e7, 8.19e11)),
        "optimizer": ((1.17e8, 1.87e12), (9.4e8, 3.35e12), (3.76e9, 3.19e12)),
    },
    peak_flops={"fp32": 5.02e13, "bf16": 8.52e14},
    is_measured=True,
)
SMALL, LARGE, WIDE = (12, 768, 12, 1024), (12, 2048, 16, 1024), (8, 1024, 16, 512)
ON_A_GPU: tuple[tuple[float, float, dict[str, Any]], ...] = (
    (183, 7.2, gpt(4, 128, 4, batch_size=32)),
    (4304, 94.6, gpt(*SMALL, batch_size=8)),
    (5901, 42.2, gpt(*SMALL, batch_size=16, precision="bf16")),
    (1819, 56.2, gpt(*SMALL, batch_size=16, precision="bf16", activation_checkpointing="full")),
    (3956, 73.8, gpt(*SMALL, batch_size=16, precision="bf16", activation_checkpointing="selective")),
    (6120, 83.1, gpt(*SMALL, batch_size=32, precision="bf16", accumulate=2)),
    (14263, 467.1, gpt(*LARGE, batch_size=8)),
    (18927, 129.3, gpt(*LARGE, batch_size=16, precision="bf16")),
    (7649, 168.2, gpt(*LARGE, batch_size=16, precision="bf16", activation_checkpointing="full")),
    (7064, 170.2, gpt(*WIDE, batch_size=32, optimizer="sgd")),
    (5270, 45.9, gpt(*WIDE, batch_size=32, optimizer="muon", precision="bf16")),
)


@pytest.mark.parametrize(("held", "step_ms", "changes"), ON_A_GPU)
def test_what_a_gpu_held_and_took_is_in_the_range(held: float, step_ms: float, changes: dict[str, Any]) -> None:
    made = estimated(spec_of(**{"checkpoint": {"every_steps": 0}, **changes}), node=GPU, rates=H200)
    assert made.memory[0].low <= held * MIB <= made.memory[0].high
    assert made.step_time.low <= step_ms / 1e3 <= made.step_time.high
