"""Pipeline parallelism: each stage holds a run of layers, and microbatches flow through the stages.

Schedules by ``torch.distributed.pipelining``, over what flows between parts: the hidden states of one microbatch.

- ``gpipe``: all forward passes, then all backward passes (Huang et al. 2019).
- ``1f1b``: a backward pass as soon as there is one, so that a stage keeps as many microbatches as stages lie behind
  it (Narayanan et al. 2019, PipeDream-Flush).
- ``interleaved``: 1f1b with two parts of the model on each stage (Narayanan et al. 2021, section 2.2).
- ``zero-bubble``: the backward pass is cut in two, and gradients of weights fill what would be waiting (Qi et al.
  2023); two parts on each stage, laid out as a V (Qi et al. 2024). torch's other one, ``ScheduleInterleavedZeroBubble``
  (ZB1P), trains on gloo to the same losses, and from 2 p - 1 microbatches on waits as long and keeps as many
  activations; but it refuses numbers of microbatches that make no equal rounds, and sends once more for each.
- ``layer-wise``: the whole batch through one stage at a time, the plain split.
"""

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import pipelining

from trainyard.spec import RecipeSpec
from trainyard.spec.strategies.pipeline import CHUNKS, choose_microbatches, whole_backward_problem
from workers.training.assembly import Assembly
from workers.training.data.batches.feed import Feed
from workers.training.measuring.phases import BACKWARD, COMMUNICATION, DATA, FORWARD, Phases
from workers.training.mesh import BatchShare
from workers.training.optimizing.numerics import Precision
from workers.training.passes import Passed, StartSum, summed
from workers.training.recipes import Task


@dataclass(frozen=True, slots=True)
class Plan:
    """``stages`` ranks in a row hold ``num_parts`` parts of the model, through which ``num_microbatches`` pieces of
    ``micro_rows`` rows flow in a pass."""

    schedule: str
    stages: int
    num_microbatches: int
    micro_rows: int

    @property
    def num_chunks(self) -> int:
        """Number of parts that each stage holds."""
        return CHUNKS[self.schedule]

    @property
    def num_parts(self) -> int:
        return self.stages * self.num_chunks

    def stage_of(self, part: int) -> int:
        """Return the stage that holds ``part``. Parts go round in a loop, but for zero-bubble, where they turn back
        at the last stage like the arms of a V: the first stage holds the last part too."""
        turn, place = divmod(part, self.stages)
        return self.stages - 1 - place if self.schedule == "zero-bubble" and turn % 2 else place

    def parts_of(self, stage: int) -> list[int]:
        """Return the parts that ``stage`` holds, in the order of the model."""
        return [part for part in range(self.num_parts) if self.stage_of(part) == stage]


def make_plan(spec: RecipeSpec, rows: int, num_layers: int) -> Plan:
    """Return the plan for a resolved spec, ``rows`` rows in a pass and a model of ``num_layers`` layers. Raises
    ValueError, naming the field and the numbers, for what cannot be."""
    pipeline, train = spec.parallel.pipeline, spec.train
    schedule, stages = pipeline.schedule, pipeline.stages
    if stages * CHUNKS[schedule] > num_layers:
        raise ValueError(
            f"parallel.pipeline.stages is {stages}, with {CHUNKS[schedule]} parts of the model on each ({schedule}) "
            f"more than the {num_layers} layers of task.model.layers"
        )
    if (found := whole_backward_problem(schedule, train.compile, train.activation_checkpointing)) is not None:
        raise ValueError(f"{found[0]}: {found[1]}")
    try:
        num_microbatches = choose_microbatches(schedule, stages, pipeline.microbatches, rows)
    except ValueError as error:
        raise ValueError(f"parallel.pipeline.microbatches: {error}") from None
    return Plan(schedule, stages, num_microbatches, rows // num_microbatches)


FlowShape = Callable[[int, int], torch.Size]  # of so many rows, out of that part of the model


def apply(assembly: Assembly) -> None:
    """Lay out the stages, and keep of the model what this rank's stage holds."""
    if assembly.mesh.stages == 1:
        return
    (model,) = assembly.parts
    assembly.plan = make_plan(assembly.spec, assembly.share.micro, num_layers=len(assembly.task.blocks(model)))
    assembly.parts = split(assembly.task, model, assembly.plan, assembly.mesh.stage)


def split(task: Task, model: nn.Module, plan: Plan, stage: int) -> list[nn.Module]:
    """Return the parts of ``model`` that ``stage`` holds, in the model's order and with the names of the whole."""
    parts = []
    for index in plan.parts_of(stage):
        # A copy of the tree alone: parameters are shared, for each ends up in one part, and only once in memory.
        part = copy.deepcopy(model, {id(parameter): parameter for parameter in model.parameters()})
        task.keep_part(part, index, plan.num_parts)
        parts.append(part)
    return parts


class Stage(pipelining.PipelineStage):
    """A part of the model among the others, computing with ``precision``. What flows is always ``FLOWING``."""

    FLOWING = torch.float32  # as the residual stream under autocast: microbatches of any precision fit the buffers

    def __init__(
        self,
        part: nn.Module,
        index: int,
        plan: Plan,
        flow_shape: FlowShape,
        precision: Precision,
        group: Any,
        phases: Phases,
    ) -> None:
        # Examples of what comes and goes, so that the shapes are known without a pass. The first part's input and
        # the last one's output go nowhere; theirs only have to be there.
        coming, going = (
            torch.empty(flow_shape(plan.micro_rows, out_of), dtype=self.FLOWING, device="meta", requires_grad=True)
            for out_of in (max(index - 1, 0), min(index, plan.num_parts - 2))
        )
        super().__init__(part, index, plan.num_parts, precision.device, coming, going, group=group)
        self.is_last_pass = True
        self._precision, self._phases = precision, phases

    def forward_maybe_with_nosync(self, *args: Any, **named: Any) -> torch.Tensor:
        # Here and not around the schedule: backward passes are no place for autocast.
        with self._phases.within(FORWARD), self._precision.autocast():
            output: torch.Tensor = self.submod(*args, **named)
        return output if self.is_last else output.to(self.FLOWING)

    def perform_reduce_grad(self, grad_scale_factor: int) -> None:
        # Of a sharded part; torch reduces behind each run of the schedule, and a step may have several.
        if self.is_last_pass:
            super().perform_reduce_grad(grad_scale_factor)


def make_schedule(plan: Plan, stages: list[Stage], loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Any:
    """Return torch's schedule. Gradients are left as they add up: ``loss`` is divided already."""
    if plan.num_chunks == 1:
        # 1F1B of fewer microbatches than stages has nothing to hold back: it is GPipe, and torch refuses it.
        holds_back = plan.schedule == "1f1b" and plan.num_microbatches >= plan.stages
        single = pipelining.Schedule1F1B if holds_back else pipelining.ScheduleGPipe
        return single(stages[0], plan.num_microbatches, loss, scale_grads=False)
    is_interleaved = plan.schedule == "interleaved"
    multi = pipelining.ScheduleInterleaved1F1B if is_interleaved else pipelining.ScheduleZBVZeroBubble
    return multi(list(stages), plan.num_microbatches, loss, scale_grads=False)


@dataclass(eq=False)
class PipelinePasses:
    """This rank's parts of the model as stages of a pipeline: ``accumulate`` rounds of the schedule make a step.

    ``flow_shape`` gives the shape of what flows on this rank for so many rows out of a part; ``after_backward`` does
    what no backward pass has done with the gradients; ``num_alike`` ranks compute this very loss.
    """

    task: Task
    parts: Sequence[nn.Module]
    plan: Plan
    feed: Feed
    share: BatchShare
    precision: Precision
    group: dist.ProcessGroup
    phases: Phases
    flow_shape: FlowShape
    start_sum: StartSum
    num_alike: int = 1
    after_backward: Sequence[Callable[[], None]] = ()

    def __post_init__(self) -> None:
        plan, precision = self.plan, self.precision
        self._parts = dict(zip(plan.parts_of(dist.get_rank(self.group)), self.parts, strict=True))
        self._stages = [
            Stage(part, index, plan, self.flow_shape, precision, self.group, self.phases)
            for index, part in self._parts.items()
        ]
        self._is_first = 0 in self._parts
        self._is_last = plan.num_parts - 1 in self._parts
        self._schedule = make_schedule(plan, self._stages, self._scaled_loss)
        self._total = torch.zeros((), device=precision.device)

    def train(self, step: int) -> Passed:
        self._total = torch.zeros((), device=self.precision.device)
        data_time_s = 0.0
        for index in range(self.share.accumulate):
            self.phases.switch(DATA)
            started = time.perf_counter()
            inputs, targets = self._read(step, index)
            data_time_s += time.perf_counter() - started
            for stage in self._stages:
                stage.is_last_pass = index == self.share.accumulate - 1
            # But for its forward passes and its waiting, what the schedule does is backward.
            self.phases.switch(BACKWARD)
            self._schedule.step(*inputs, target=targets, return_outputs=False)
        self.phases.switch(COMMUNICATION)
        # Only the ranks of the last part know a loss; the others add nothing and learn it from the sum.
        total = self._total / (self.share.num_parts * self.num_alike)
        summing = self.start_sum(total)
        for reduce in self.after_backward:
            reduce()
        return Passed(total, summing, data_time_s)

    def _read(self, step: int, index: int) -> tuple[tuple[torch.Tensor, ...], torch.Tensor | None]:
        """Return what this rank's parts need of the batch: the ranks in the middle need nothing."""
        if not self._is_first and not self._is_last:
            return (), None
        inputs, targets = self.feed.batch(step, index)
        return (inputs,) if self._is_first else (), targets if self._is_last else None

    def _scaled_loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return what backward of one microbatch starts from, and count it."""
        with self.phases.within(FORWARD), self.precision.autocast():
            loss = self.task.criterion(outputs, targets) / (self.plan.num_microbatches * self.share.accumulate)
        self._total += loss.detach()
        return self.precision.scale(loss)

    @torch.no_grad()
    def evaluate(self, rows: slice) -> torch.Tensor:
        """Send all ``rows`` at once through the parts, one after the other: batches come in any size, and while one
        is in a later stage this one goes on with the next."""
        num_rows = rows.stop - rows.start
        total = torch.zeros(1 + len(self.task.measures), dtype=torch.float64, device=self.precision.device)
        hidden: torch.Tensor | None = None
        for index, part in self._parts.items():
            hidden = self.task.validation_batch(rows)[0] if index == 0 else self._receive(index, hidden, num_rows)
            with self.precision.autocast():
                hidden = part(hidden)
                if index == self.plan.num_parts - 1:
                    total += summed(self.task, hidden, self.task.validation_batch(rows)[1]) / self.num_alike
            self._send(index, hidden)
        return total

    def _receive(self, index: int, hidden: torch.Tensor | None, num_rows: int) -> torch.Tensor:
        """Return what the part before ``index`` has made; it may be this rank's own."""
        if index - 1 in self._parts:
            assert hidden is not None
            return hidden
        shape = self.flow_shape(num_rows, index - 1)
        arriving = torch.empty(shape, dtype=Stage.FLOWING, device=self.precision.device)
        dist.recv(arriving, group=self.group, group_src=self.plan.stage_of(index - 1))
        return arriving

    def _send(self, index: int, hidden: torch.Tensor) -> None:
        if index + 1 < self.plan.num_parts and index + 1 not in self._parts:
            flowing = hidden.to(Stage.FLOWING).contiguous()
            dist.send(flowing, group=self.group, group_dst=self.plan.stage_of(index + 1))

    def settle(self) -> None:
        """Do nothing: no sum depends on the order in which gradients became ready."""


def make_passes(assembly: Assembly) -> PipelinePasses:
    task, plan, num_cuts = assembly.task, assembly.plan, assembly.mesh.tensor
    assert plan is not None

    def flow_shape(num_rows: int, index: int) -> torch.Size:
        shape = task.hidden_shape(num_rows, index, plan.num_parts)
        if not task.cuts_sequence:
            return shape
        # Each tensor-parallel rank sends its own piece of the sequence to its like in the next stage: nothing is
        # gathered for the way, and all pieces together travel once.
        rows, sequence, *rest = shape
        return torch.Size((rows, sequence // num_cuts, *rest))

    return PipelinePasses(
        task,
        assembly.parts,
        plan,
        assembly.feed,
        assembly.share,
        assembly.precision,
        assembly.group("pipeline").get_group(),
        phases=assembly.measures.phases,
        flow_shape=flow_shape,
        start_sum=assembly.start_sum,
        num_alike=assembly.mesh.num_alike,
        after_backward=assembly.after_backward,
    )
