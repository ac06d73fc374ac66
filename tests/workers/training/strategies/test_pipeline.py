from __future__ import annotations

from typing import Any, get_args

import pytest
import torch

from tests.workers.training.parity import distance
from tests.workers.training.ranks import recipe_spec, tiny_spec, train_on
from trainyard.spec import RecipeSpec, read_spec
from trainyard.spec.sections.parallel import Pipeline
from trainyard.spec.strategies.pipeline import CHUNKS
from workers.training.recipes.gpt import GPT, Shape
from workers.training.strategies.pipeline import Plan, make_plan

TOLERANCE = 1e-4  # relative; measured 3e-7, as microbatches are added up in another order


def pipeline(stages: int, schedule: str = "1f1b", microbatches: int | str = "auto") -> dict[str, Any]:
    return {"stages": stages, "schedule": schedule, "microbatches": microbatches}


def spec_of(given: dict[str, Any], **train: Any) -> RecipeSpec:
    """Return a spec that no rule across fields has seen."""
    document = {"name": "tiny", "task": {"recipe": "language-model"}, "parallel": {"pipeline": given}, "train": train}
    spec = read_spec(document)
    assert isinstance(spec, RecipeSpec)
    return spec


def send_no_gradient_back() -> None:
    """Let each stage but the last learn nothing of the loss."""
    from workers.training.strategies.pipeline import Stage

    plain = Stage.get_bwd_send_ops

    def nothing(self: Stage, chunk: int) -> Any:
        operations = plain(self, chunk)
        for operation in operations:
            operation.tensor.zero_()
        return operations

    Stage.get_bwd_send_ops = nothing  # type: ignore[method-assign]


# What two ranks learn. The other schedules and meshes are in tests/parity.


@pytest.mark.parametrize("schedule", ["1f1b", "zero-bubble"])
def test_two_stages_learn_what_one_process_learns(schedule: str) -> None:
    found = distance(2, {"pipeline": pipeline(2, schedule)}, steps=6, accumulate=2)
    assert max(found) < TOLERANCE, found


def test_parity_goes_red_when_nothing_flows_back_between_stages() -> None:
    found = distance(2, {"pipeline": pipeline(2)}, steps=6, accumulate=2, setup=send_no_gradient_back)
    assert found.gradient > 0.1 and found.loss > 10 * TOLERANCE, found


def test_all_ranks_refuse_more_stages_than_layers_before_any_waits() -> None:
    spec = tiny_spec(world=2, parallel={"pipeline": pipeline(2)})
    spec["task"]["model"]["layers"] = 1
    with pytest.raises(ValueError, match=r"parallel\.pipeline\.stages is 2, .* more than the 1 layers of task\.model"):
        train_on(2, spec, setup=form_no_group)


def form_no_group() -> None:
    from workers.training import build

    def refused(*arguments: Any) -> None:
        raise AssertionError("a collective")

    build.make_device_mesh = refused  # type: ignore[assignment]


# The plan: arithmetic.


def test_every_schedule_of_the_spec_has_a_plan() -> None:
    assert set(get_args(Pipeline.model_fields["schedule"].annotation)) == CHUNKS.keys()


@pytest.mark.parametrize("schedule", CHUNKS)
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_each_part_is_held_by_one_stage_and_each_stage_holds_as_many(schedule: str, stages: int) -> None:
    plan = Plan(schedule, stages, num_microbatches=1, micro_rows=1)
    held = [plan.parts_of(stage) for stage in range(stages)]
    assert sorted(part for parts in held for part in parts) == list(range(plan.num_parts))
    assert {len(parts) for parts in held} == {CHUNKS[schedule]}


def test_interleaved_goes_round_and_zero_bubble_turns_back() -> None:
    assert [Plan("interleaved", 3, 1, 1).stage_of(part) for part in range(6)] == [0, 1, 2, 0, 1, 2]
    assert [Plan("zero-bubble", 3, 1, 1).stage_of(part) for part in range(6)] == [0, 1, 2, 2, 1, 0]


@pytest.mark.parametrize(
    ("schedule", "stages", "rows", "expected"),
    [
        ("1f1b", 2, 32, 4),
        ("1f1b", 4, 32, 8),
        ("1f1b", 4, 12, 6),  # 8 does not divide
        ("gpipe", 2, 7, 1),
        ("interleaved", 4, 10, 5),
        ("interleaved", 3, 5, 5),
        ("zero-bubble", 2, 2, 2),
        ("layer-wise", 4, 32, 1),
    ],
)
def test_auto_takes_two_microbatches_a_stage_as_far_as_rows_divide(
    schedule: str, stages: int, rows: int, expected: int
) -> None:
    plan = make_plan(spec_of(pipeline(stages, schedule)), rows, num_layers=8)
    assert plan.num_microbatches == expected
    assert plan.num_microbatches * plan.micro_rows == rows


@pytest.mark.parametrize(
    ("given", "rows", "message"),
    [
        (pipeline(5), 8, r"parallel\.pipeline\.stages is 5, .*\(1f1b\) more than the 4 layers"),
        (pipeline(3, "interleaved"), 8, r"stages is 3, with 2 parts of the model on each .* more than the 4 layers"),
        (pipeline(2, "gpipe", 3), 8, r"microbatches: 3 does not fit the 8 .*; accepted: auto, 1, 2, 4, 8$"),
        (pipeline(2, "layer-wise", 2), 8, r"microbatches: 2 .* schedule layer-wise; accepted: auto, 1$"),
        (pipeline(2, "interleaved", 5), 5, r"microbatches: 5 .* schedule interleaved; accepted: auto, 1$"),
    ],
)
def test_what_cannot_be_a_pipeline_is_refused_naming_field_and_numbers(
    given: dict[str, Any], rows: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make_plan(spec_of(given), rows, num_layers=4)


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ({"compile": True}, r"train\.compile: true .* zero-bubble .* cuts each backward pass in two"),
        ({"activation_checkpointing": "selective"}, r"train\.activation_checkpointing: selective .*: none, full$"),
    ],
)
def test_zero_bubble_refuses_a_backward_pass_that_cannot_be_cut(train: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_plan(spec_of(pipeline(2, "zero-bubble"), **train), 8, num_layers=4)
    make_plan(spec_of(pipeline(2, "interleaved"), **train), 8, num_layers=4)


# The parts.


@pytest.mark.parametrize("schedule", ["1f1b", "zero-bubble"])
def test_the_parts_together_are_the_model_with_its_names_and_its_numbers(schedule: str) -> None:
    from workers.training.recipes import load_task
    from workers.training.strategies.pipeline import split

    spec = recipe_spec(world=2, model={"layers": 5}, parallel={"pipeline": pipeline(2, schedule)})
    task = load_task(spec.task, seed=1, device=torch.device("cpu"))
    model = task.make_model()
    whole = dict(model.named_parameters())
    inputs, _ = task.train_batch(slice(0, 2))
    expected = model(inputs)
    plan = make_plan(spec, 8, num_layers=5)
    parts: list[Any] = [None] * plan.num_parts
    for stage in range(2):
        for index, part in zip(plan.parts_of(stage), split(task, model, plan, stage), strict=True):
            parts[index] = part
    held = [(name, parameter) for part in parts for name, parameter in part.named_parameters()]
    assert sorted(name for name, _ in held) == sorted(whole)
    assert all(parameter is whole[name] for name, parameter in held)
    hidden = inputs
    for part in parts[:-1]:
        hidden = part(hidden)
        assert hidden.shape == task.hidden_shape(2, 0, plan.num_parts)
    assert torch.equal(parts[-1](hidden), expected)


def test_longer_runs_of_layers_come_first() -> None:
    from workers.training.recipes.parts import keep_part

    runs = []
    for index in range(3):
        model = GPT(Shape(layers=5, width=8, heads=2, context=8, vocabulary=16))
        keep_part(model, index, 3)
        runs.append((model.embedding is not None, list(model.layers), model.head is not None))
    assert runs == [(True, ["0", "1"], False), (False, ["2", "3"], False), (False, ["4"], True)]
