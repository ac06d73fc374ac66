"""The one order in which a training is put together, and why each part stands where it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from workers.training import optimizers, process_group, schedules
from workers.training.early_stopping import EarlyStopping
from workers.training.mesh import BatchShare, Mesh, make_device_mesh, share_batch
from workers.training.numerics import Precision
from workers.training.passes import Passes, PlainPasses, StartSum
from workers.training.recipes import Task
from workers.training.settings import TrainSettings
from workers.training.strategies import data_parallel
from workers.training.synchronization import EveryStep, Synchronization


@dataclass(slots=True)
class Training:
    """Everything that the loop moves. ``parts`` are the plain modules that this rank holds (one; several where a
    pipeline's schedule goes round more than once), with the names of the whole model's parameters."""

    task: Task
    settings: TrainSettings
    mesh: Mesh
    device_mesh: DeviceMesh | None
    share: BatchShare
    device: torch.device
    parts: list[nn.Module]
    passes: Passes
    precision: Precision
    optimizer: torch.optim.Optimizer
    schedule: schedules.Schedule
    synchronization: Synchronization
    start_sum: StartSum
    early_stopping: EarlyStopping = field(default_factory=EarlyStopping)

    def parameters(self) -> dict[str, nn.Parameter]:
        """Return this rank's parameters by their names in the whole model."""
        return {name: parameter for part in self.parts for name, parameter in part.named_parameters()}


def build(spec: Mapping[str, Any], task: Task, settings: TrainSettings, mesh: Mesh, device: torch.device) -> Training:
    """Compose the training of this rank. Raises ValueError for degrees that no strategy here provides."""
    if mesh.world_size != mesh.data:
        raise ValueError(f"parallel: only data is built yet, got {mesh}")
    share = share_batch(settings.batch_size, settings.accumulate, mesh)
    device_mesh = make_device_mesh(mesh, device)
    precision = Precision(settings.precision, device)
    # 1. The model, from the seed and on the CPU: every rank, on every kind of device, starts from the same numbers.
    torch.manual_seed(settings.seed)
    model = task.make_model()
    # 2. Its parts, where there are stages: what belongs to other ranks never reaches the device.
    # 3. The device, before anything takes hold of parameters: a strategy or an optimiser that has seen the CPU's
    #    tensors would go on working on those.
    model.to(device)
    # 4. Tensor, then activation checkpointing, then compilation, then shard: each wraps, or cuts, what the one before
    #    has left.
    # 5. Data parallel, outermost: it must see the gradients that all the cuts leave to this rank.
    replica = data_parallel.apply(model, mesh)
    # 6. The passes, which know how a step flows through all that.
    start_sum = process_group.all_reduce_sum
    passes = PlainPasses(
        task,
        replica,
        share,
        precision,
        start_sum=start_sum,
        num_throwaways=data_parallel.num_throwaway_passes(replica),
        without_reduction=partial(data_parallel.without_reduction, replica),
    )
    # 7. The optimiser, after every cut: it must own the parameters that are trained, not those that were replaced.
    optimizer = optimizers.make_optimizer(settings.optimizer, [model], weight_decay=settings.weight_decay)
    # 8. The schedule and the synchronisation, last: they only set numbers in the optimiser, and call it.
    schedule = schedules.make_schedule(
        settings.schedule,
        peak=settings.learning_rate,
        steps=settings.steps,
        warmup_steps=settings.warmup_steps,
    )
    return Training(
        task=task,
        settings=settings,
        mesh=mesh,
        device_mesh=device_mesh,
        share=share,
        device=device,
        parts=[model],
        passes=passes,
        precision=precision,
        optimizer=optimizer,
        schedule=schedule,
        synchronization=EveryStep(optimizer, precision),
        start_sum=start_sum,
        early_stopping=EarlyStopping(
            patience=spec["early_stopping"]["patience"], min_delta=spec["early_stopping"]["min_delta"]
        ),
    )
