"""The one order in which a training is put together, and why each part stands where it does."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from workers.training import optimizers, schedules
from workers.training.mesh import BatchShare, Mesh, share_batch
from workers.training.recipes import Task
from workers.training.settings import TrainSettings
from workers.training.strategies import data_parallel


@dataclass(frozen=True, slots=True)
class Training:
    """Everything that the loop moves. ``model`` has the plain parameter names, ``replica`` is what the loop calls."""

    task: Task
    settings: TrainSettings
    mesh: Mesh
    share: BatchShare
    device: torch.device
    model: nn.Module
    replica: nn.Module
    optimizer: torch.optim.Optimizer
    schedule: schedules.Schedule


def build(task: Task, settings: TrainSettings, mesh: Mesh, device: torch.device) -> Training:
    """Compose the training of this rank. Raises ValueError for degrees that no strategy here provides."""
    if mesh.world_size != mesh.data:
        raise ValueError(f"parallel: only data is built yet, got {mesh}")
    share = share_batch(settings.batch_size, settings.accumulate, mesh)
    # 1. The model, from the seed and on the CPU: every rank, on every kind of device, starts from the same numbers.
    torch.manual_seed(settings.seed)
    model = task.make_model()
    # 2. The device, before anything takes hold of parameters: a strategy or an optimiser that has seen the CPU's
    #    tensors would go on working on those.
    model.to(device)
    # 3. Tensor, then shard, then stage come here, in this order: each cuts what the one before has left.
    # 4. Data parallel, outermost: it must see the gradients that all the cuts leave to this rank.
    replica = data_parallel.apply(model, mesh)
    # 5. The optimiser, after every cut: it must own the parameters that are trained, not those that were replaced.
    optimizer = optimizers.make_optimizer(settings.optimizer, model, weight_decay=settings.weight_decay)
    # 6. The schedule, last: it only sets a number in the optimiser.
    schedule = schedules.make_schedule(
        settings.schedule,
        peak=settings.learning_rate,
        steps=settings.steps,
        warmup_steps=settings.warmup_steps,
    )
    return Training(task, settings, mesh, share, device, model, replica, optimizer, schedule)
