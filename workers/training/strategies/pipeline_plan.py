"""Layout of a pipeline: which rank holds which parts of the model, and into how many pieces a batch is cut.

Arithmetic alone, so that what cannot be is refused before any rank waits for another.
"""

from dataclasses import dataclass

from trainyard.spec import RecipeSpec
from trainyard.spec.strategies.microbatches import CHUNKS, choose_microbatches, whole_backward_problem


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
    if schedule not in CHUNKS:
        raise ValueError(f"parallel.pipeline.schedule is {schedule!r}; accepted are {', '.join(CHUNKS)}")
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
