"""Composition of a training. ``trainyard.spec.strategies`` says which strategy stands where, and why."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import nn

from trainyard.spec import RecipeSpec
from trainyard.spec.sections.train import EarlyStopping as EarlyStoppingSpec
from trainyard.spec.sections.train import Train
from trainyard.spec.strategies import Place, at_place
from workers.training import group as process_group
from workers.training.assembly import Applies, Assembly
from workers.training.data.batches.feed import Feed
from workers.training.measuring.flops import flops_per_row
from workers.training.measuring.measures import Measures
from workers.training.measuring.memory import Heap
from workers.training.mesh import BatchShare, Mesh, make_device_mesh, share_batch
from workers.training.optimizing import optimizers
from workers.training.optimizing.early_stopping import EarlyStopping
from workers.training.optimizing.numerics import Precision
from workers.training.passes import Passes, PlainPasses, StartSum
from workers.training.recipes import Task
from workers.training.strategies import (
    activation_checkpointing,
    balance,
    compilation,
    compression,
    context,
    data_parallel,
    pipeline,
    shard,
    tensor,
    topk,
)
from workers.training.strategies.synchronization import diloco, every_step, local_sgd, parameter_server
from workers.training.strategies.synchronization.protocol import OwnLoss, no_sum

STRATEGIES: Mapping[str, Applies] = {  # by their names in trainyard.spec.strategies
    "pipeline": pipeline,
    "context": context,
    "tensor": tensor,
    "activation_checkpointing": activation_checkpointing,
    "compilation": compilation,
    "shard": shard,
    "halved": compression,
    "powersgd": compression,
    "topk": topk,
    "data_parallel": data_parallel,
    "every_step": every_step,
    "local_sgd": local_sgd,
    "diloco": diloco,
    "parameter_server": parameter_server,
    "balance": balance,
}


@dataclass(slots=True, kw_only=True)
class Training(Assembly):
    """Everything that the loop moves. ``parts`` are the plain modules that this rank holds (one; several where a
    pipeline's schedule goes round more than once), with the names of the whole model's parameters."""

    early_stopping: EarlyStopping
    given: Train  # the settings before any change
    is_updating: bool = False  # weights are those of no step, or of one whose loss is not known
    # Known at the end of ``build``.
    passes: Passes = field(init=False)
    start_agreed_sum: StartSum = field(init=False)  # over those that validate
    num_validators: int = field(init=False)  # the first so many parts of the batch; the others' ranks do not validate
    heap: Heap = field(init=False)
    trained: list[nn.Parameter] = field(init=False)  # looked up once: walking the modules takes longer than the clip

    def take_share(self, share: BatchShare) -> None:
        """Let this rank compute other rows of the batches from the next step on."""
        assert isinstance(self.passes, PlainPasses)  # no other is in the table of what goes with shares of one's own
        self.passes.resize(self.settings.batch_size, share)
        self.share = share

    def parameters(self) -> dict[str, nn.Parameter]:
        """Return this rank's parameters by their names in the whole model."""
        return {name: parameter for part in self.parts for name, parameter in part.named_parameters()}


def build(spec: RecipeSpec, task: Task, settings: Train, mesh: Mesh, device: torch.device) -> Training:
    """Compose the training of this rank. Raises ValueError for what the strategies here do not provide."""
    training = begin(spec, task, settings, mesh, device)
    # Before the first collective, so that all ranks refuse what cannot be, and none waits for another.
    apply_all(Place.SPLIT, training)
    training.device_mesh = make_device_mesh(mesh, device)
    # The device, before a strategy or an optimizer takes hold of parameters: it would go on with the CPU's.
    for part in training.parts:
        part.to(device)
    apply_all(Place.CUT, training)
    apply_all(Place.REDUCE, training)
    training.feed = Feed(training.task, settings.batch_size, training.share, device)
    training.passes = pipeline.make_passes(training) if training.plan is not None else PlainPasses(training)
    # The optimizer, after every cut: it must own the parameters that are trained, not those that were replaced.
    training.optimizer = make_optimizer(training)
    training.schedule = make_schedule(settings)
    apply_all(Place.AGREE, training)
    is_alone = training.synchronization_kind == "parameter-server"  # no collective: workers come and go
    training.start_agreed_sum = no_sum if is_alone else process_group.all_reduce_sum
    training.num_validators = 1 if is_alone else training.share.num_parts
    training.heap = Heap(device, has_shards=mesh.shard > 1)
    training.trained = list(training.parameters().values())
    return training


def begin(spec: RecipeSpec, task: Task, settings: Train, mesh: Mesh, device: torch.device) -> Training:
    """Return the whole model, from the seed and on the CPU: every rank, on every kind of device, starts from the same
    numbers."""
    early_stopping = make_early_stopping(spec.early_stopping, task)
    share = share_batch(settings.batch_size, settings.accumulate, mesh)
    torch.manual_seed(settings.seed)
    model = task.make_model()
    return Training(
        spec=spec,
        task=task,
        settings=settings,
        given=settings,
        mesh=mesh,
        device=device,
        share=share,
        precision=Precision(settings.precision, device),
        parts=[model],
        measures=make_measures(spec, task, model, settings, mesh, device),
        own_loss=OwnLoss(share.num_parts),
        early_stopping=early_stopping,
    )


def apply_all(place: Place, assembly: Assembly) -> None:
    """Apply the strategies of a place in the order of their table; one module may be that of several."""
    for strategy in dict.fromkeys(STRATEGIES[strategy.name] for strategy in at_place(place)):
        strategy.apply(assembly)


def make_early_stopping(given: EarlyStoppingSpec, task: Task) -> EarlyStopping:
    """Return what a spec's part asks for. Raises ValueError for a metric that the task does not report."""
    reported = ["val/loss", *(f"val/{name}" for name in task.measures)]
    if given.metric not in reported:
        words = f"which this recipe does not measure on this data; accepted here: {', '.join(reported)}"
        raise ValueError(f"early_stopping.metric is {given.metric}, {words}")
    return EarlyStopping(given.patience, given.min_delta, given.metric)


def make_measures(
    spec: RecipeSpec, task: Task, model: nn.Module, settings: Train, mesh: Mesh, device: torch.device
) -> Measures:
    """Return what measures the training of ``model``, which is still whole."""
    sizes = [parameter.numel() for parameter in model.parameters()]
    parallel = spec.parallel
    is_ddp = parallel.synchronization.kind == "every-step" and mesh.num_copies == mesh.world_size
    return Measures(
        device,
        mesh,
        precision=settings.precision,
        flops_per_row=flops_per_row(spec.task, task, sum(sizes)),
        sent_by_backward=data_parallel.sent_bytes(model, mesh) if is_ddp and parallel.compression == "none" else 0,
    )


def make_schedule(settings: Train) -> optimizers.Schedule:
    return optimizers.make_schedule(
        settings.schedule, peak=settings.learning_rate, steps=settings.steps, warmup_steps=settings.warmup_steps
    )


def make_optimizer(assembly: Assembly) -> torch.optim.Optimizer:
    settings = assembly.settings
    return optimizers.make_optimizer(
        settings.optimizer,
        assembly.parts,
        assembly.blocks,
        weight_decay=settings.weight_decay,
        rate_scale=lambda parameter: assembly.task.rate_scale(parameter, settings.optimizer),
    )
