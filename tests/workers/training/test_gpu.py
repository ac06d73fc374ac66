"""On a machine with GPUs: the same mathematics as one process on its CPU. Skipped, and said to be, elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.workers.training.ranks import series, tiny_spec, train_on
from workers.training.communication.calibration import measure_compute

STEPS = 10
MODEL = {"layers": 2, "width": 64, "heads": 4, "context": 32}
NUM_GPUS = torch.cuda.device_count()


def needs(number: int) -> Any:
    return pytest.mark.skipif(number > NUM_GPUS, reason=f"needs {number} GPU(s), and this machine has {NUM_GPUS}")


def distance_from_cpu(world: int, setup: Callable[[], None] | None = None, **changes: Any) -> float:
    """Return the largest relative difference of a loss from one process on the CPU, in float32 and uncompiled."""
    learned_alike = {name: value for name, value in changes.items() if name in ("optimizer", "learning_rate")}
    (alone,) = train_on(1, tiny_spec(steps=STEPS, model=MODEL, **learned_alike))
    spec = tiny_spec(world=world, steps=STEPS, model=MODEL, **changes)
    spec["resources"]["accelerator"] = "gpu"
    expected, found = series(alone, "train/loss"), series(train_on(world, spec, setup=setup)[0], "train/loss")
    assert expected.keys() == found.keys()
    return float(np.max([abs(found[step] - expected[step]) / expected[step] for step in expected]))


@needs(1)
@pytest.mark.parametrize(
    ("changes", "limit"),
    [
        ({}, 1e-4),
        ({"compile": True}, 1e-4),
        ({"precision": "bf16"}, 1e-2),
        ({"precision": "fp16"}, 1e-2),
        ({"precision": "bf16", "compile": True}, 1e-2),
        ({"optimizer": "sgd", "learning_rate": 0.1}, 1e-4),
        ({"optimizer": "muon"}, 1e-3),
        ({"activation_checkpointing": "full"}, 1e-4),
        ({"accumulate": 2}, 1e-4),
    ],
)
def test_a_gpu_learns_what_a_cpu_learns(changes: dict[str, Any], limit: float) -> None:
    assert distance_from_cpu(1, **changes) < limit


@needs(1)
def test_batches_that_a_thread_reads_arrive_whole_on_a_gpu() -> None:
    assert distance_from_cpu(1, setup=read_ahead) < 1e-4


def read_ahead() -> None:
    from workers.training.data.batches import feed

    feed.WORTH_A_THREAD_S, feed.NUM_READS = 0.0, 1


@needs(1)
@pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")  # torch says so of its thread's first product
def test_a_gpus_large_products_are_measured_where_they_are_quick() -> None:
    """Of small ones alone a planner takes a GPU for a third as quick in bf16: it waits for its orders."""
    rates = measure_compute(torch.device("cuda", 0))
    assert rates.rate("attention", 5e11, "bf16") > 3 * rates.rate("attention", 3e9, "bf16")
    assert rates.rate("matmul", 3e11, "bf16") == rates.peak_flops["bf16"]


@needs(2)
@pytest.mark.parametrize(
    ("changes", "limit"),
    [
        ({}, 1e-4),
        ({"parallel": {"compression": "powersgd"}}, 2e-2),
        ({"parallel": {"compression": "topk", "topk_ratio": 1.0}}, 1e-4),
        ({"parallel": {"shard": 2}}, 1e-4),
        ({"parallel": {"shard": 2}, "precision": "bf16", "compile": True}, 1e-2),
    ],
)
def test_two_gpus_over_nccl_learn_what_a_cpu_learns(changes: dict[str, Any], limit: float) -> None:
    assert distance_from_cpu(2, **changes) < limit
