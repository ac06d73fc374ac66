"""Every pipeline schedule is the same mathematics: microbatches change the order of a sum, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workers.training.parity import SHAPE, check_parity, distance
from tests.workers.training.strategies.test_pipeline import send_no_gradient_back

LIMIT = 1e-5  # relative, of each of 20 losses and of first gradients; measured up to 1e-6
BATCH = {"batch_size": 24, "gradient_clip": 0.25}  # the clip is at work in every step: all stages must know the norm
EIGHT_LAYERS = {**SHAPE, "layers": 8}
SCHEDULES = ["gpipe", "1f1b", "interleaved", "zero-bubble", "layer-wise"]


def pipeline(stages: int, schedule: str, microbatches: int | str = "auto", **others: Any) -> dict[str, Any]:
    return {"pipeline": {"stages": stages, "schedule": schedule, "microbatches": microbatches}, **others}


def measure_each_stage_alone() -> None:
    """Let each stage clip by the norm of its own gradients."""
    import torch

    from workers.training import loop

    loop._norm_over_ranks = lambda gradients, pieces, mesh: torch.nn.utils.get_total_norm(pieces)


def divide_by_no_number_of_microbatches() -> None:
    """Sum over microbatches where their mean is due."""
    from workers.training.strategies.pipeline import PipelinePasses

    plain = PipelinePasses._scaled_loss

    def summed(self, outputs, targets):  # type: ignore[no-untyped-def]
        return plain(self, outputs, targets) * self.plan.num_microbatches

    PipelinePasses._scaled_loss = summed  # type: ignore[method-assign]


def count_the_last_pass_alone() -> None:
    """Forget what the passes before the last one have added up."""
    from workers.training.strategies.pipeline import PipelinePasses

    plain = PipelinePasses._read

    def forgetful(self, step, rows):  # type: ignore[no-untyped-def]
        for part in self._parts.values():
            part.zero_grad()
        return plain(self, step, rows)

    PipelinePasses._read = forgetful  # type: ignore[method-assign]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("stages", [2, 4])
def test_stages_learn_what_one_process_learns(schedule: str, stages: int) -> None:
    check_parity(stages, pipeline(stages, schedule), limit=LIMIT, model=EIGHT_LAYERS, **BATCH)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_passes_add_up_to_a_step(schedule: str) -> None:
    check_parity(2, pipeline(2, schedule), limit=LIMIT, apart={"accumulate": 3}, **BATCH)


@pytest.mark.parametrize(
    ("schedule", "microbatches"),
    [("gpipe", 1), ("1f1b", 1), ("1f1b", 3), ("1f1b", 24), ("interleaved", 2), ("interleaved", 3), ("zero-bubble", 1)],
)
def test_any_number_of_microbatches_gives_the_same(schedule: str, microbatches: int) -> None:
    check_parity(2, pipeline(2, schedule, microbatches), limit=LIMIT, **BATCH)


def test_stages_may_hold_unequal_runs_of_layers() -> None:
    check_parity(3, pipeline(3, "1f1b"), limit=LIMIT, **BATCH)


@pytest.mark.parametrize("schedule", ["1f1b", "interleaved", "zero-bubble"])
def test_bf16_is_rounded_as_in_one_process(schedule: str) -> None:
    # Not the same to the last digit: the gradients of a weight are rounded for each microbatch.
    check_parity(2, pipeline(2, schedule), limit=1e-3, gradient_limit=2e-2, precision="bf16", **BATCH)


@pytest.mark.parametrize(
    ("schedule", "kind"),
    [("1f1b", "full"), ("1f1b", "selective"), ("interleaved", "full"), ("interleaved", "selective"),
     ("zero-bubble", "full")],
)  # fmt: skip
def test_what_is_computed_again_is_the_same(schedule: str, kind: str) -> None:
    check_parity(2, pipeline(2, schedule), limit=LIMIT, apart={"activation_checkpointing": kind}, **BATCH)


@pytest.mark.parametrize(
    "leave_out",
    [send_no_gradient_back, measure_each_stage_alone, divide_by_no_number_of_microbatches, count_the_last_pass_alone],
)
def test_it_goes_red_when_something_is_left_out(leave_out: Any) -> None:
    found = distance(2, pipeline(2, "1f1b"), setup=leave_out, apart={"accumulate": 2}, **BATCH)
    assert found.loss > 10 * LIMIT or found.gradient > 1000 * LIMIT, found
