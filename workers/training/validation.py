"""How good the model is on rows that it never learns from."""

from __future__ import annotations

import torch

from workers.training.build import Training

AT_ONCE = {"tokens": 4096, "samples": 64}  # as many do a CPU's threads justice, and a pass of training holds more


def validation_means(training: Training) -> dict[str, float]:
    """Return the means of the loss and of the task's measures over the validation rows, by name, of which each rank
    computes a share.

    The rows are the same at every step and for every number of ranks, so that the means can be compared.
    """
    task, share, num_parts = training.task, training.share, training.num_validators
    first = task.num_validation_rows * share.part // num_parts
    last = task.num_validation_rows * (share.part + 1) // num_parts
    rows_at_once = max(share.micro, AT_ONCE[task.unit] // task.units_per_row)
    totals = torch.zeros(1 + len(task.measures), dtype=torch.float64, device=training.device)
    for part in training.parts:
        part.eval()
    # As often on every rank: to gather a shard's weights takes all that have some, rows left or not.
    longest = -(-task.num_validation_rows // num_parts)
    for start in range(first, first + longest, rows_at_once):
        if start < last:
            totals += training.passes.evaluate(slice(start, min(start + rows_at_once, last)))
        elif training.mesh.shard > 1:
            training.passes.evaluate(slice(0, 1))
    for part in training.parts:
        part.train()
    summing = training.start_sum(totals)
    if summing is not None:
        summing.wait()
    means = (totals / task.num_validation_rows).tolist()
    return dict(zip(("loss", *task.measures), means, strict=True))
