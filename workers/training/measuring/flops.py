"""Floating-point operations that a step takes, and those that the device could do: MFU is one over the other.

Source: Chowdhery et al. 2022, "PaLM", appendix B: model FLOPs utilisation counts what the model needs, forward and
backward, and nothing that is computed twice.
"""

import logging
import time

import torch

from trainyard.planner import DataFacts, model_flops
from trainyard.spec.sections.tasks import RecipeTask
from workers.training.recipes import Task

logger = logging.getLogger(__name__)

# TFLOP/s without sparsity, as makers state them, by a piece of the device's name: the first that is found counts.
# Products of fp32 matrices run on the cores that take float32 (no TF32, unless it is enabled).
PEAK_TFLOPS: dict[str, dict[str, float]] = {
    "B200": {"fp32": 75, "fp16": 2250, "bf16": 2250}, "GH200": {"fp32": 67, "fp16": 989, "bf16": 989},
    "H200": {"fp32": 67, "fp16": 989, "bf16": 989}, "H100 PCIe": {"fp32": 51, "fp16": 756, "bf16": 756},
    "H100 NVL": {"fp32": 60, "fp16": 835, "bf16": 835}, "H100": {"fp32": 67, "fp16": 989, "bf16": 989},
    "A100": {"fp32": 19.5, "fp16": 312, "bf16": 312}, "A40": {"fp32": 37.4, "fp16": 149.7, "bf16": 149.7},
    "A10": {"fp32": 31.2, "fp16": 125, "bf16": 125}, "L40S": {"fp32": 91.6, "fp16": 362, "bf16": 362},
    "L40": {"fp32": 90.5, "fp16": 181, "bf16": 181}, "L4": {"fp32": 30.3, "fp16": 121, "bf16": 121},
    "V100": {"fp32": 15.7, "fp16": 125}, "T4": {"fp32": 8.1, "fp16": 65},
    "RTX 4090": {"fp32": 82.6, "fp16": 165, "bf16": 165}, "RTX 3090": {"fp32": 35.6, "fp16": 71, "bf16": 71},
}  # fmt: skip
PROBE_S = 0.02  # of products on a CPU, whose peak stands in no table
PROBE_WIDTH = 256  # a product takes less than a millisecond, so that some are not interrupted
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def flops_per_row(spec: RecipeTask, task: Task, num_parameters: int) -> float:
    """Return the FLOPs of one row, forward and backward; where no formula knows the model, 6 for each parameter and
    unit (Kaplan et al. 2020, section 2.1)."""
    try:
        return float(model_flops(spec.model_dump(), data_facts(task)))
    except (KeyError, ValueError) as error:
        logger.debug("FLOPs by the number of parameters: %s", error)
        return 6.0 * num_parameters * task.units_per_row


def data_facts(task: Task) -> DataFacts:
    """Return what the planner's formulas need of a task's data; of text there is nothing to know."""
    samples = getattr(task, "samples", None)
    if samples is None:
        return DataFacts(num_rows=task.num_train_rows)
    shape = samples.train_inputs.shape
    is_image = len(shape) == 4
    return DataFacts(
        num_rows=shape[0],
        num_features=None if is_image else shape[1],
        num_classes=len(samples.classes),
        channels=shape[1] if is_image else None,
        image_size=shape[2] if is_image else None,
    )


def peak_flops(device: torch.device, precision: str) -> float | None:
    """Return the FLOP/s that ``device`` can reach at best in ``precision``: of a GPU by its maker's word, of a CPU by
    what products of large matrices reach now with this process's threads. None for a GPU that is in no table."""
    if device.type != "cuda":
        return measured_peak(precision)
    name = torch.cuda.get_device_name(device)
    found = next((peaks for piece, peaks in PEAK_TFLOPS.items() if piece in name), {})
    return found[precision] * 1e12 if precision in found else None


@torch.no_grad()
def measured_peak(precision: str) -> float:
    """Return the FLOP/s of the quickest of some products, in about PROBE_S."""
    left = torch.ones(PROBE_WIDTH, PROBE_WIDTH, dtype=DTYPES[precision])
    right, product = torch.ones_like(left), torch.empty_like(left)
    shortest, spent = float("inf"), 0.0
    while spent < PROBE_S:
        started = time.perf_counter()
        torch.mm(left, right, out=product)
        took = time.perf_counter() - started
        shortest, spent = min(shortest, took), spent + took
    return 2.0 * PROBE_WIDTH**3 / shortest
