"""Floating-point operations that a step takes, and those that the device could do: MFU is one over the other.

Source: Chowdhery et al. 2022, "PaLM", appendix B: model FLOPs utilisation counts what the model needs, forward and
backward, and nothing that is computed twice.
"""

import logging
import time

import torch

from trainyard.planner import DataFacts, model_flops
from trainyard.planner.machines import gpu_of
from trainyard.spec.sections.tasks import RecipeTask
from workers.training.recipes import Task

logger = logging.getLogger(__name__)

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
    what products of large matrices reach now with this process's threads. None for a GPU that is in no table, or
    does not compute in it."""
    if device.type != "cuda":
        return measured_peak(precision)
    found = gpu_of(torch.cuda.get_device_name(device))
    if found is None or (precision == "bf16" and not found.has_bf16):
        return None
    return (found.fp32 if precision == "fp32" else found.small) * 1e12


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
