"""A training while it is put together: each strategy finds here what those before it have left."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from trainyard.spec import RecipeSpec
from trainyard.spec.sections.parallel import Parallel
from trainyard.spec.sections.train import Train
from workers.training import group as process_group
from workers.training.data.batches.feed import Feed
from workers.training.measuring.measures import Measures
from workers.training.mesh import BatchShare, Mesh
from workers.training.optimizing.numerics import Precision
from workers.training.optimizing.optimizers import Schedule
from workers.training.passes import StartSum
from workers.training.recipes import Task
from workers.training.strategies.synchronization.protocol import OwnLoss, Synchronization

if TYPE_CHECKING:  # strategies, which import this module
    from workers.training.strategies.balance import Balance
    from workers.training.strategies.compression import Compression
    from workers.training.strategies.pipeline import Plan


@dataclass(slots=True)
class Assembly:
    """``parts`` are the modules that this rank trains: the whole model, or what a pipeline's stage holds of it."""

    spec: RecipeSpec
    task: Task
    settings: Train
    mesh: Mesh
    device: torch.device
    share: BatchShare
    precision: Precision
    parts: list[nn.Module]
    measures: Measures
    own_loss: OwnLoss
    device_mesh: DeviceMesh | None = None  # from the place CUT on; None where copies of the model are all there is
    plan: "Plan | None" = None  # of a pipeline
    compression: "Compression | None" = None
    # How the gradients of a step are reduced: by hooks of the replica, and by what is called behind the last backward.
    replica: nn.Module | None = None  # in place of the only part
    num_throwaways: int = 0
    without_reduction: Callable[[], AbstractContextManager[None]] = nullcontext
    after_backward: list[Callable[[], None]] = field(default_factory=list)
    start_sum: StartSum = process_group.all_reduce_sum  # of the loss
    # Known from the place AGREE on.
    feed: Feed = field(init=False)
    optimizer: torch.optim.Optimizer = field(init=False)
    schedule: Schedule = field(init=False)
    synchronization: Synchronization = field(init=False)
    balance: "Balance | None" = None

    @property
    def parallel(self) -> Parallel:
        return self.spec.parallel

    @property
    def synchronization_kind(self) -> str:
        return self.parallel.synchronization.kind

    @property
    def blocks(self) -> list[nn.Module]:
        return [block for part in self.parts for block in self.task.blocks(part)]

    def group(self, axis: str) -> DeviceMesh:
        """Return the ranks along an axis of the mesh whose degree is above 1."""
        assert self.device_mesh is not None, f"there is no mesh with an axis {axis}"
        return self.device_mesh[axis]


class Applies(Protocol):
    """The half with torch of a strategy: a module with this function."""

    def apply(self, assembly: Assembly) -> None:
        """Change the training as the spec asks; nothing where it does not ask. Raises ValueError, naming the field, for
        what cannot be."""
