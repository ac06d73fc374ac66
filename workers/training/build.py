"""The one order in which a training is put together, and why each part stands where it does."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from trainyard.spec import RecipeSpec
from trainyard.spec.sections.train import EarlyStopping as EarlyStoppingSpec
from trainyard.spec.sections.train import Train
from workers.training.data.batches.feed import Feed
from workers.training.measuring.flops import flops_per_row
from workers.training.measuring.heap import Heap
from workers.training.measuring.measures import Measures
from workers.training.measuring.phases import Phases
from workers.training.mesh import BatchShare, Mesh, make_device_mesh, share_batch
from workers.training.optimizing import optimizers, schedules
from workers.training.optimizing.early_stopping import EarlyStopping
from workers.training.optimizing.numerics import Precision
from workers.training.passes import Passes, PlainPasses, StartSum
from workers.training.recipes import Task
from workers.training.startup import process_group
from workers.training.strategies import activation_checkpointing, compilation, data_parallel, pipeline, shard, tensor
from workers.training.strategies.balance import Balance, make_balance
from workers.training.strategies.compression import Compression, make_compression
from workers.training.strategies.pipeline_plan import Plan, make_plan
from workers.training.strategies.synchronization.kinds import make_synchronization
from workers.training.strategies.synchronization.protocol import OwnLoss, Synchronization, no_sum


@dataclass(slots=True)
class Training:
    """Everything that the loop moves. ``parts`` are the plain modules that this rank holds (one; several where a
    pipeline's schedule goes round more than once), with the names of the whole model's parameters."""

    task: Task
    settings: Train
    mesh: Mesh
    device_mesh: DeviceMesh | None
    share: BatchShare
    feed: Feed
    device: torch.device
    parts: list[nn.Module]
    passes: Passes
    precision: Precision
    optimizer: torch.optim.Optimizer
    schedule: schedules.Schedule
    synchronization: Synchronization
    start_sum: StartSum  # over those that validate
    measures: Measures
    num_validators: int  # the first so many parts of the batch; the others' ranks do not validate
    early_stopping: EarlyStopping = field(default_factory=EarlyStopping)
    balance: Balance | None = None
    heap: Heap = field(init=False)
    trained: list[nn.Parameter] = field(init=False)  # looked up once: walking the modules takes longer than the clip

    def __post_init__(self) -> None:
        self.heap = Heap(self.device, has_shards=self.mesh.shard > 1)
        self.trained = list(self.parameters().values())

    def take_share(self, share: BatchShare) -> None:
        """Let this rank compute other rows of the batches from the next step on."""
        assert isinstance(self.passes, PlainPasses)  # no other is in the table of what goes with shares of one's own
        self.passes.resize(self.settings.batch_size, share)
        self.share = share

    def parameters(self) -> dict[str, nn.Parameter]:
        """Return this rank's parameters by their names in the whole model."""
        return {name: parameter for part in self.parts for name, parameter in part.named_parameters()}


@dataclass(frozen=True, slots=True)
class Kit:
    """What passes of every kind are made of."""

    task: Task
    feed: Feed
    share: BatchShare
    precision: Precision
    phases: Phases

    def plain(self, replica: nn.Module, *, start_sum: StartSum, **more: Any) -> PlainPasses:
        """Return the passes of ``replica``; ``more`` says how its gradients are reduced."""
        return PlainPasses(
            self.task, replica, self.feed, self.share, self.precision, phases=self.phases, start_sum=start_sum, **more
        )


def build(spec: RecipeSpec, task: Task, settings: Train, mesh: Mesh, device: torch.device) -> Training:
    """Compose the training of this rank. Raises ValueError for degrees that no strategy here provides."""
    early_stopping = make_early_stopping(spec.early_stopping, task)
    share = share_batch(settings.batch_size, settings.accumulate, mesh)
    feed = Feed(task, settings.batch_size, share, device)
    # 1. The model, from the seed and on the CPU: every rank, on every kind of device, starts from the same numbers.
    torch.manual_seed(settings.seed)
    model = task.make_model()
    measures = make_measures(spec, task, model, settings, mesh, device)
    # 2. Its parts, where there are stages: what belongs to other ranks never reaches the device. Laid out before the
    #    first collective, so that all ranks refuse what cannot be, and none waits for another.
    plan = plan_pipeline(spec, task, model, share, mesh)
    device_mesh = make_device_mesh(mesh, device)
    precision = Precision(settings.precision, device)
    parts = [model] if plan is None else pipeline.split(task, model, plan, mesh.stage)
    # 3. The device, before a strategy or an optimizer takes hold of parameters: it would go on with the CPU's.
    for part in parts:
        part.to(device)
    # 4. What is cut and wrapped within each part. A pipeline keeps gathered weights for all its microbatches: it would
    #    gather them anew for each, and a backward pass cut in two looks for whole weights before it has gathered any.
    reshard_after_forward = spec.parallel.reshard_after_forward and plan is None
    for part in parts:
        cut(task, part, settings, device_mesh, precision, reshard_after_forward)
    # 5. Data parallel and the passes, which know how a step flows through all that. Where ranks do not agree in every
    #    step, there is neither: gradients and loss stay each rank's own.
    compression = make_compression(spec.parallel.compression, parts[0])
    agreement, own_loss = spec.parallel.synchronization, OwnLoss(share.num_parts)
    kit = Kit(task, feed, share, precision, measures.phases)
    if agreement.kind != "every-step":
        passes: Passes = kit.plain(parts[0], start_sum=own_loss)
    else:
        passes = make_passes(kit, parts, plan, mesh, device_mesh, reshard_after_forward, compression)
    # 6. The optimizer, after every cut: it must own the parameters that are trained, not those that were replaced.
    optimizer = make_optimizer(task, parts, settings)
    # 7. The schedule and the synchronisation, last: they only set numbers in the optimizer, and call it.
    schedule = make_schedule(settings)
    synchronization = make_synchronization(
        agreement, optimizer, precision, schedule, own_loss, mesh, last_step=settings.steps, compression=compression
    )
    is_alone = agreement.kind == "parameter-server"  # no collective: workers come and go
    return Training(
        task=task,
        settings=settings,
        mesh=mesh,
        device_mesh=device_mesh,
        share=share,
        feed=feed,
        device=device,
        parts=parts,
        passes=passes,
        precision=precision,
        optimizer=optimizer,
        schedule=schedule,
        synchronization=synchronization,
        start_sum=no_sum if is_alone else process_group.all_reduce_sum,
        measures=measures,
        num_validators=1 if is_alone else share.num_parts,
        early_stopping=early_stopping,
        balance=make_balance(spec.parallel.balance, share, device),
    )


def make_early_stopping(given: EarlyStoppingSpec, task: Task) -> EarlyStopping:
    """Return what a spec's part asks for. Raises ValueError for a metric that the task does not report."""
    reported = ["val/loss", *(f"val/{name}" for name in task.measures)]
    if given.metric not in reported:
        raise ValueError(
            f"early_stopping.metric is {given.metric}, which this recipe does not measure on this data; "
            f"accepted here: {', '.join(reported)}"
        )
    return EarlyStopping(given.patience, given.min_delta, given.metric)


def make_measures(
    spec: RecipeSpec, task: Task, model: nn.Module, settings: Train, mesh: Mesh, device: torch.device
) -> Measures:
    """Return what measures the training of ``model``, which is still whole."""
    sizes = [parameter.numel() for parameter in model.parameters()]
    parallel = spec.parallel
    is_ddp = parallel.synchronization.kind == "every-step" and mesh.data == mesh.world_size
    return Measures(
        device,
        mesh,
        precision=settings.precision,
        flops_per_row=flops_per_row(spec.task, task, sum(sizes)),
        sent_by_backward=data_parallel.sent_bytes(model, mesh) if is_ddp and parallel.compression == "none" else 0,
    )


def plan_pipeline(spec: RecipeSpec, task: Task, model: nn.Module, share: BatchShare, mesh: Mesh) -> Plan | None:
    """Return how the model is cut into stages; None where there is one. Raises ValueError for what cannot be."""
    if mesh.stages == 1:
        return None
    return make_plan(spec, share.micro, num_layers=len(task.blocks(model)))


def cut(
    task: Task,
    part: nn.Module,
    settings: Train,
    device_mesh: DeviceMesh | None,
    precision: Precision,
    reshard_after_forward: bool,
) -> None:
    """Cut ``part`` among the ranks that share it: tensor, then activation checkpointing, then compilation, then shard.
    Each wraps, or cuts, what the one before has left."""
    if device_mesh is not None and device_mesh["tensor"].size() > 1:
        tensor.apply(part, task.tensor_plan(), device_mesh["tensor"])
    blocks = task.blocks(part)
    activation_checkpointing.apply(blocks, settings.activation_checkpointing)
    if settings.compile:
        compilation.apply(blocks, precision.device)
    if device_mesh is not None and device_mesh["shard"].size() > 1:
        shard.apply(part, blocks, device_mesh, reshard_after_forward=reshard_after_forward, dtype=precision.dtype)


def make_schedule(settings: Train) -> schedules.Schedule:
    return schedules.make_schedule(
        settings.schedule, peak=settings.learning_rate, steps=settings.steps, warmup_steps=settings.warmup_steps
    )


def make_optimizer(task: Task, parts: list[nn.Module], settings: Train) -> torch.optim.Optimizer:
    blocks = [block for part in parts for block in task.blocks(part)]
    return optimizers.make_optimizer(settings.optimizer, parts, blocks, weight_decay=settings.weight_decay)


def make_passes(
    kit: Kit,
    parts: list[nn.Module],
    plan: Plan | None,
    mesh: Mesh,
    device_mesh: DeviceMesh | None,
    reshard_after_forward: bool,
    compression: Compression | None,
) -> Passes:
    """Return the passes of a model that ranks agree on in every step: in stages, or held by one rank, one group of
    shards or of tensor-parallel ranks."""
    if plan is not None:
        assert device_mesh is not None
        return make_pipeline_passes(kit, parts, plan, device_mesh)
    (model,) = parts
    make = partial(kit.plain, start_sum=process_group.all_reduce_sum, num_alike=mesh.tensor)
    if mesh.shard > 1:
        return make(
            model,
            without_reduction=partial(shard.without_reduction, model, reshard_after_forward=reshard_after_forward),
        )
    if mesh.tensor > 1:
        assert device_mesh is not None
        # DDP would take pieces for whole weights, and shards of which each copy has one would be copied to be gathered.
        return make(model, reduce=partial(reduce_gradients, [model], device_mesh))
    # Data parallel comes outermost: it must see the gradients that all the cuts leave to this rank.
    replica = data_parallel.apply(model, mesh, compression=compression)
    return make(
        replica,
        num_throwaways=data_parallel.num_throwaway_passes(replica),
        without_reduction=partial(data_parallel.without_reduction, replica),
    )


def reduce_gradients(parts: list[nn.Module], device_mesh: DeviceMesh) -> None:
    """Do what no backward pass has done: sum the gradients that tensor-parallel ranks have parts of, then average
    over the copies of the model, unless shards have seen to both."""
    if device_mesh["shard"].size() > 1:
        return
    if device_mesh["tensor"].size() > 1:
        tensor.sum_gradients(parameter for part in parts for parameter in part.parameters())
    data_parallel.average_gradients(parts, device_mesh.get_group("data"))


def make_pipeline_passes(kit: Kit, parts: list[nn.Module], plan: Plan, device_mesh: DeviceMesh) -> Passes:
    """Return the passes of a pipeline. No DDP: it reduces in hooks that a backward pass cut in two never runs, so
    the gradients of replicas are averaged once the last microbatch has left."""
    num_cuts, task = device_mesh["tensor"].size(), kit.task

    def flow_shape(num_rows: int, index: int) -> torch.Size:
        shape = task.hidden_shape(num_rows, index, plan.num_parts)
        if not task.cuts_sequence:
            return shape
        # Each tensor-parallel rank sends its own piece of the sequence to its like in the next stage: nothing is
        # gathered for the way, and all pieces together travel once.
        rows, sequence, *rest = shape
        return torch.Size((rows, sequence // num_cuts, *rest))

    return pipeline.PipelinePasses(
        task,
        parts,
        plan,
        kit.feed,
        kit.share,
        kit.precision,
        device_mesh.get_group("pipeline"),
        phases=kit.phases,
        flow_shape=flow_shape,
        start_sum=process_group.all_reduce_sum,
        num_alike=num_cuts,
        reduce=partial(reduce_gradients, parts, device_mesh),
    )
