"""The synchronisation that ``parallel.synchronization.kind`` of a spec names."""

from __future__ import annotations

import torch

from trainyard.spec.sections.parallel import Synchronization as SynchronizationSpec
from workers.training.mesh import Mesh
from workers.training.optimizing.numerics import Precision
from workers.training.optimizing.schedules import Schedule
from workers.training.strategies.compression import CompressedStep, Compression
from workers.training.strategies.synchronization import parameter_server
from workers.training.strategies.synchronization.diloco import DiLoCo
from workers.training.strategies.synchronization.local_sgd import LocalSGD
from workers.training.strategies.synchronization.protocol import EveryStep, OwnLoss, Synchronization


def make_synchronization(
    fields: SynchronizationSpec,
    optimizer: torch.optim.Optimizer,
    precision: Precision,
    schedule: Schedule,
    own_loss: OwnLoss,
    mesh: Mesh,
    *,
    last_step: int,
    compression: Compression | None = None,
) -> Synchronization:
    """Return what ``fields``, the spec's ``parallel.synchronization``, asks for. A collective of all ranks.

    Raises ValueError for an unknown kind.
    """
    kind, parameters = fields.kind, parameter_server.parameters_of(optimizer)
    if kind == "every-step":
        if compression is not None:
            return CompressedStep(optimizer, precision, compression)
        return EveryStep(optimizer, precision)
    if kind == "local-sgd":
        return LocalSGD(
            parameters, optimizer, precision, own_loss, every_steps=fields.every_steps, world_size=mesh.world_size
        )
    if kind == "diloco":
        return DiLoCo(
            parameters,
            optimizer,
            precision,
            own_loss,
            every_steps=fields.every_steps,
            world_size=mesh.world_size,
            learning_rate=fields.outer_learning_rate,
            momentum=fields.outer_momentum,
        )
    if kind == "parameter-server":
        groups = parameter_server.connect(mesh.world_size)
        if mesh.rank > 0:
            return parameter_server.RemoteWorker(optimizer, own_loss, groups[mesh.rank])
        return parameter_server.ServingWorker(
            optimizer, own_loss, groups, schedule, last_step=last_step, max_staleness=fields.max_staleness
        )
    raise ValueError(f"parallel.synchronization.kind is {kind!r}, which is not built")
