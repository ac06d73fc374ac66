from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tests.workers.training.ranks import recipe_spec
from workers.training.measuring.flops import PROBE_S, flops_per_row, measured_peak, peak_flops
from workers.training.recipes import load_task

CUDA = torch.device("cuda")


def test_a_row_takes_what_torch_counts() -> None:
    """The fused attention of a CPU is unknown to torch's counter, which sees the same products made one by one."""
    spec = recipe_spec(model={"layers": 2, "width": 64, "heads": 2, "context": 32})
    task = load_task(spec.task, seed=0, device=torch.device("cpu"))
    model = task.make_model()
    with FlopCounterMode(display=False) as counter, torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        task.loss(model, task.train_batch(slice(0, 4))).backward()  # type: ignore[no-untyped-call]
    num_parameters = sum(parameter.numel() for parameter in model.parameters())
    assert flops_per_row(spec.task, task, num_parameters) * 4 == pytest.approx(counter.get_total_flops(), rel=1e-6)


def test_a_model_without_a_formula_takes_6_for_each_parameter_and_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> float:
        raise ValueError("task.recipe is 'own'")

    monkeypatch.setattr("workers.training.measuring.flops.model_flops", refuse)
    spec = recipe_spec()
    task = load_task(spec.task, seed=0, device=torch.device("cpu"))
    assert flops_per_row(spec.task, task, 1000) == 6 * 1000 * 16


def test_a_cpu_is_measured_and_in_about_the_time_that_was_promised() -> None:
    import time

    measured_peak("fp32")
    started = time.perf_counter()
    peak = measured_peak("fp32")
    assert time.perf_counter() - started < 100 * PROBE_S
    assert 1e8 < peak < 1e14


@pytest.mark.parametrize(
    ("name", "precision", "expected"),
    [
        ("NVIDIA H200", "bf16", 989e12),
        ("NVIDIA H100 PCIe", "bf16", 756e12),
        ("NVIDIA H100 80GB HBM3", "fp32", 67e12),
        ("NVIDIA A100-SXM4-80GB", "fp16", 312e12),
        ("NVIDIA A10", "bf16", 125e12),
        ("NVIDIA A10G", "bf16", 70e12),  # https://www.baseten.co/blog/nvidia-a10-vs-a10g-for-ml-model-inference/
        ("Tesla V100-SXM2-16GB", "bf16", None),
        ("NVIDIA Unheard-of 9", "fp32", None),
    ],
)
def test_a_gpu_reaches_what_its_maker_says(
    monkeypatch: pytest.MonkeyPatch, name: str, precision: str, expected: float | None
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    assert peak_flops(CUDA, precision) == expected
