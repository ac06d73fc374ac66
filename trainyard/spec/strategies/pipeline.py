"""Stages that hold a run of layers each, through which the batch flows in microbatches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainyard.spec.problems import Problem
from trainyard.spec.strategies.messages import Message
from trainyard.spec.strategies.strategy import Axis, Place, Strategy

if TYPE_CHECKING:
    from trainyard.spec.models import RecipeSpec
    from trainyard.spec.strategies.costs import Layout, Stage

# Number of parts of the model that each stage's ranks hold: two where the schedule goes round twice.
CHUNKS = {"1f1b": 1, "gpipe": 1, "interleaved": 2, "zero-bubble": 2, "layer-wise": 1}
MICROBATCHES_A_STAGE = 2  # that auto takes, where the batch divides


def fits(schedule: str, stages: int, num_microbatches: int) -> bool:
    """Say whether ``schedule`` can order so many microbatches."""
    if schedule == "layer-wise":
        return num_microbatches == 1
    # Interleaved goes in rounds of equal length, each of as many microbatches as there are stages, or a few more.
    return schedule != "interleaved" or num_microbatches % max(1, num_microbatches // stages) == 0


def accepted_microbatches(schedule: str, stages: int, rows: int) -> list[int]:
    """Return what divides the ``rows`` of a pass and what ``schedule`` can order, smallest first; 1 always does."""
    small = [number for number in range(1, int(rows**0.5) + 1) if rows % number == 0]
    numbers = sorted({*small, *(rows // number for number in small)})
    return [number for number in numbers if fits(schedule, stages, number)]


def choose_microbatches(schedule: str, stages: int, asked: int | str, rows: int) -> int:
    """Return ``asked``, or for "auto" the most that are accepted up to two a stage. Raises ValueError where ``asked``
    is not accepted, naming what is."""
    accepted = accepted_microbatches(schedule, stages, rows)
    if asked == "auto":
        return max(number for number in accepted if number <= MICROBATCHES_A_STAGE * stages)
    if asked not in accepted:
        words = ", ".join(map(str, accepted[:12])) + (", …" if len(accepted) > 12 else "")
        raise ValueError(
            f"{asked} does not fit the {rows} samples that each copy of the model has in a pass (train.batch_size / "
            f"train.accumulate / copies) over {stages} stages with the schedule {schedule}; accepted: auto, {words}"
        )
    return int(asked)


def whole_backward_problem(schedule: str, is_compiled: bool, checkpointing: str) -> tuple[str, str] | None:
    """Return the field at fault and why, where zero-bubble is to cut in two a backward pass that cannot be cut."""
    if schedule != "zero-bubble":
        return None
    why = "which parallel.pipeline.schedule zero-bubble does not go with: it cuts each backward pass in two"
    if is_compiled:
        return "train.compile", f"true makes one piece of each block, {why}; accepted here: false"
    if checkpointing == "selective":
        words = f"selective keeps what it has kept for one backward pass, {why}; accepted here: none, full"
        return "train.activation_checkpointing", words
    return None


CALLS = 120  # of each microbatch on a stage


class Pipeline(Strategy):
    name = "pipeline"
    place = Place.SPLIT
    reason = "first of all: layers of other ranks never reach the device, and refusals come before any wait"
    axis = Axis(
        "pipeline",
        "parallel.pipeline.stages",
        "stage",
        alone="pipeline, or the plain layer-wise split",
        clause="whose layers stand in stages of a pipeline",
        order=0,
    )

    def problems(self, spec: RecipeSpec) -> Iterator[Problem]:
        stages, chunks, layers = spec.parallel.pipeline.stages, num_chunks(spec), spec.task.model.layers
        if stages * chunks <= layers:
            return
        schedule = spec.parallel.pipeline.schedule
        words = f" x {chunks} parts on each ({schedule}) = {stages * chunks}" if chunks > 1 else ""
        most = max(1, layers // chunks)
        yield Problem(
            "parallel.pipeline.stages",
            f"{stages} stages{words} are more than the {layers} layers of task.model.layers; "
            f"accepted: {'1' if most == 1 else f'1 to {most}'}",
        )

    def product_problems(self, spec: RecipeSpec) -> Iterator[Problem]:
        train, pipeline = spec.train, spec.parallel.pipeline
        if pipeline.stages == 1:
            return
        rows, rest = divmod(train.batch_size, train.accumulate * spec.mesh().num_batch_parts)
        if rest == 0:
            try:
                choose_microbatches(pipeline.schedule, pipeline.stages, pipeline.microbatches, rows)
            except ValueError as error:
                yield Problem("parallel.pipeline.microbatches", str(error))
        found = whole_backward_problem(pipeline.schedule, train.compile, train.activation_checkpointing)
        if found is not None:
            yield Problem(*found)

    def sentence(self, spec: RecipeSpec, degree: int) -> str:
        pipeline, copies = spec.parallel.pipeline, spec.mesh().num_batch_parts
        if pipeline.schedule == "layer-wise":
            return f"{degree} stages hold the layers one after the other; the batch is in one of them at a time."
        rows = spec.train.batch_size // (spec.train.accumulate * copies)
        number = choose_microbatches(pipeline.schedule, degree, pipeline.microbatches, rows)
        flow = f"{number} microbatches flow" if number > 1 else "one microbatch flows"
        return f"{degree} stages hold the layers one after the other; {flow} through them ({pipeline.schedule})."

    def messages(self, spec: RecipeSpec, layout: Layout, stage: Stage) -> list[Message]:
        """One microbatch each way over each border that the stage has: its neighbours wait for both."""
        borders = (stage.index > 0) + (stage.index < layout.mesh.stages - 1) if layout.chunks == 1 else 2
        times = layout.passes * borders * layout.chunks
        return [Message("send-receive", 2, times * stage.flow, times * 2)]

    def buffer_bytes(self, layout: Layout, stage: Stage) -> float:
        """One buffer for each microbatch both ways."""
        return 2 * layout.microbatches * stage.flow * layout.chunks

    def calls(self, layout: Layout, stage: Stage) -> float:
        return CALLS

    def bubble(self, layout: Layout) -> float:
        """Sources: benchmarks/training_cases/bench_bubble.py."""
        stages, number = layout.mesh.stages, layout.microbatches
        work = {"interleaved": 2 * number, "zero-bubble": 6 * number}.get(layout.schedule, number)
        return (stages - 1) / (work + stages - 1)


def num_chunks(spec: RecipeSpec) -> int:
    """Return how many parts of the model each stage's ranks hold: two where the schedule goes round twice."""
    pipeline = spec.parallel.pipeline
    return CHUNKS[pipeline.schedule] if pipeline.stages > 1 else 1
