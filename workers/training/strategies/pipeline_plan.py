"""How a pipeline is laid out: which rank holds which parts of the model, and into how many pieces a batch is cut.

Arithmetic alone, so that what cannot be is refused before any rank waits for another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# How many parts of the model each stage's ranks hold. The same table as ``trainyard.spec.rules.num_chunks``.
CHUNKS = {"1f1b": 1, "gpipe": 1, "layer-wise": 1, "interleaved": 2, "zero-bubble": 2}
MICROBATCHES_A_STAGE = 2


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
        """How many parts each stage holds."""
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


def make_plan(pipeline: Mapping[str, Any], rows: int, num_layers: int) -> Plan:
    """Return the plan for ``parallel.pipeline`` of a resolved spec, ``rows`` rows in a pass and a model of
    ``num_layers`` layers. Raises ValueError, naming the field and the numbers, for what cannot be."""
    schedule, stages = pipeline["schedule"], pipeline["stages"]
    if schedule not in CHUNKS:
        raise ValueError(f"parallel.pipeline.schedule is {schedule!r}; accepted are {', '.join(CHUNKS)}")
    if stages * CHUNKS[schedule] > num_layers:
        raise ValueError(
            f"parallel.pipeline.stages is {stages}, with {CHUNKS[schedule]} parts of the model on each ({schedule}) "
            f"more than the {num_layers} layers of task.model.layers"
        )
    num_microbatches = choose_microbatches(schedule, stages, pipeline["microbatches"], rows)
    return Plan(schedule, stages, num_microbatches, rows // num_microbatches)


def choose_microbatches(schedule: str, stages: int, asked: int | str, rows: int) -> int:
    """Return ``asked``, or for "auto" two a stage as far as ``rows`` divide, else the largest number below that does;
    layer-wise is one. Raises ValueError where ``asked`` does not fit."""
    accepted = [number for number in range(1, rows + 1) if rows % number == 0 and fits(schedule, stages, number)]
    if asked == "auto":
        return max(number for number in accepted if number <= MICROBATCHES_A_STAGE * stages)
    if asked not in accepted:
        raise ValueError(
            f"parallel.pipeline.microbatches is {asked}, which does not fit {rows} rows in a pass (train.batch_size "
            f"/ train.accumulate / data ranks), {stages} stages and the schedule {schedule}; accepted are auto, "
            f"{', '.join(map(str, accepted))}"
        )
    return int(asked)


def fits(schedule: str, stages: int, num_microbatches: int) -> bool:
    """Say whether ``schedule`` can order so many microbatches."""
    if schedule == "layer-wise":
        return num_microbatches == 1
    # Interleaved goes in rounds of equal length, each of as many microbatches as there are stages, or a few more.
    return schedule != "interleaved" or num_microbatches % max(1, num_microbatches // stages) == 0
