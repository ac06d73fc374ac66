"""How much of a GPU's peak a training reaches, beside a large matrix product in bf16 on the same GPU."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import torch

from benchmarks.ranks import gpt_spec, on_ranks
from benchmarks.table import Row, middle, scaled
from benchmarks.training import prepared
from trainyard.contract.base import JsonObject
from trainyard.spec import RecipeSpec
from workers.training import group as process_group
from workers.training.group import RankPlace, choose_device
from workers.training.loop import settle, take_step

WARM_STEPS = 5  # the first of them compile
STEPS = 20
MATRIX = 8192
MODEL = {"layers": 12, "width": 2048, "heads": 16, "context": 1024}
CHANGES: dict[str, Any] = {"steps": 1_000, "batch_size": 16, "model": MODEL}
WAYS: dict[str, tuple[int, dict[str, Any]]] = {
    "fp32": (1, {}),
    "bf16": (1, {"precision": "bf16"}),
    "bf16, compiled": (1, {"precision": "bf16", "compile": True}),
    "bf16, compiled, sharded over 2 (FSDP2)": (2, {"precision": "bf16", "compile": True, "parallel": {"shard": 2}}),
}


class Speed(NamedTuple):
    """Operations a second of one GPU, by its name: of the model's own arithmetic, and of the matrix product."""

    ours: float
    peak: float
    device: str


def rows() -> list[Row]:
    num_gpus = torch.cuda.device_count()
    return [row(name, world, changes, num_gpus) for name, (world, changes) in WAYS.items()]


def row(name: str, world: int, changes: JsonObject, num_gpus: int) -> Row:
    what, against = f"GPT of 12 layers and width 2,048 on a GPU, {name}", "a matrix product in bf16"
    if num_gpus < world:
        note = f"not measured: it needs {world} GPU{'s' * (world > 1)}, and this machine has {num_gpus or 'none'}"
        return Row(what, None, "TFLOP/s", None, against, is_less_better=False, note=note)
    spec = gpt_spec(world, accelerator="gpu", **{**CHANGES, **changes})
    speed: Speed = on_ranks(world, speed_of_rank, spec)[0]
    note = f"{speed.device}; times better is the share of the peak that is reached (MFU)"
    return Row(what, speed.ours / 1e12, "TFLOP/s", speed.peak / 1e12, against, is_less_better=False, note=note)


def speed_of_rank(place: RankPlace, spec: RecipeSpec) -> Speed:
    device = choose_device("gpu", place)
    torch.cuda.set_device(device)
    process_group.join(place, device)
    training = prepared(spec, place)
    num_parameters = sum(parameter.numel() for parameter in training.parameters().values())
    settle(training)
    seconds = []
    for step in range(1, WARM_STEPS + scaled(STEPS) + 1):
        torch.cuda.synchronize()
        started = time.perf_counter()
        take_step(training, step)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    name = torch.cuda.get_device_name(device)
    tokens = training.settings.batch_size * training.task.units_per_row / place.world_size
    return Speed(tokens * operations_a_token(num_parameters) / middle(seconds[WARM_STEPS:]), peak(device), name)


def operations_a_token(num_parameters: int) -> float:
    """6 for each parameter, and attention's (Chowdhery et al. 2022, appendix B), of which a causal mask leaves half."""
    return 6 * num_parameters + 6 * MODEL["layers"] * MODEL["width"] * MODEL["context"]


def peak(device: torch.device) -> float:
    left, right = (torch.randn(MATRIX, MATRIX, device=device, dtype=torch.bfloat16) for _ in range(2))
    seconds = []
    for _ in range(WARM_STEPS + STEPS):
        torch.cuda.synchronize()
        started = time.perf_counter()
        left @ right
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    return float(2 * MATRIX**3 / middle(seconds[WARM_STEPS:]))
