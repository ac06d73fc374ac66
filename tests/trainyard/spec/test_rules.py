"""What each field accepts alone and the whole cannot have: every refusal names its field and its numbers."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard.spec import RecipeSpec, SpecError, form_fields, merge, parse_spec
from trainyard.spec.rules import num_chunks

RECIPE: dict[str, Any] = {"name": "hello-gpt", "task": {"recipe": "language-model"}}


def parsed(changes: dict[str, Any]) -> RecipeSpec:
    spec = parse_spec(merge(RECIPE, changes))
    assert isinstance(spec, RecipeSpec)
    return spec


def refusals(changes: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(SpecError) as caught:
        parsed(changes)
    return {problem.path: problem.message for problem in caught.value.errors}


def pipeline(stages: int, schedule: str, microbatches: int | str = "auto", **more: Any) -> dict[str, Any]:
    split = {"stages": stages, "schedule": schedule, "microbatches": microbatches}
    return {"resources.nodes": stages, "parallel.pipeline": split, **more}


@pytest.mark.parametrize(
    "changes",
    [
        {"train.find_batch_size": "memory", "train.scale_learning_rate": "sqrt"},
        {"resources.nodes": 2, "parallel": {"shard": 2, "reshard_after_forward": False}},
        {"resources.nodes": 4, "parallel.tensor": 4},
        {"early_stopping": {"patience": 3, "min_delta": 0.01}},
        {"checkpoint": {"every_steps": 10, "keep": 1, "restore": "272bay33uw@299"}},
        pipeline(4, "1f1b", 8),
        pipeline(2, "interleaved", 8),
        pipeline(2, "zero-bubble", 1),
        pipeline(4, "layer-wise", 1),
        pipeline(2, "gpipe", "auto", **{"train.batch_size": 31}),
        {"resources.nodes": 2, "parallel.synchronization": {"kind": "local-sgd", "every_steps": 5}},
        {
            "resources.nodes": 2,
            "parallel.synchronization": {"kind": "diloco", "every_steps": 5, "outer_learning_rate": 1},
        },
        {"resources.nodes": 2, "parallel.synchronization": {"kind": "parameter-server", "max_staleness": 0}},
    ],
    ids=str,
)
def test_it_accepts(changes: dict[str, Any]) -> None:
    spec = parsed(changes)
    assert parse_spec(spec.resolved()) == spec


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        ({"task.model.heads": 3}, "task.model.heads", "3 heads do not divide the width 128"),
        ({"task.model": {"width": 12, "heads": 4}}, "task.model.heads", "12 / 4 heads = 3 is odd"),
        (
            {"resources.nodes": 3, "parallel.tensor": 3},
            "parallel.tensor",
            "3 does not divide the 4 heads of task.model.heads, of which each rank takes its share; accepted: 1, 2, 4",
        ),
        (
            {"resources.nodes": 4, "parallel.tensor": 4, "task.model.context": 90},
            "parallel.tensor",
            "4 does not divide the 90 tokens of task.model.context, of which each rank takes its share; accepted: 1, 2",
        ),
        (
            pipeline(8, "1f1b"),
            "parallel.pipeline.stages",
            "8 stages are more than the 4 layers of task.model.layers; accepted: 1 to 4",
        ),
        (
            pipeline(4, "interleaved"),
            "parallel.pipeline.stages",
            "4 stages x 2 parts on each (interleaved) = 8 are more than the 4 layers of task.model.layers; "
            "accepted: 1 to 2",
        ),
        (
            pipeline(2, "zero-bubble", **{"task.model.layers": 3}),
            "parallel.pipeline.stages",
            "2 stages x 2 parts on each (zero-bubble) = 4 are more than the 3 layers",
        ),
        ({"train": {"steps": 10, "warmup_steps": 11}}, "train.warmup_steps", "11 is more than the 10 steps"),
        (
            {"resources.nodes": 2, "train.precision": "fp16", "parallel.compression": "powersgd"},
            "parallel.compression",
            "which train.precision fp16 changes; accepted here: none, fp16, bf16",
        ),
        (
            {"early_stopping.patience": 3, "train.validate_every_steps": 0},
            "early_stopping.patience",
            "3 counts validations, and with train.validate_every_steps 0",
        ),
        (
            {"checkpoint.restore": "272bay33uw@300"},
            "checkpoint.restore",
            "step 300 leaves nothing to train: train.steps 300",
        ),
        ({"checkpoint.restore": "272bay33uw"}, "checkpoint.restore", "must be RUN@STEP, such as 272bay33uw@200"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_it_refuses(changes: dict[str, Any], path: str, message: str) -> None:
    found = refusals(changes)
    assert message in found[path], found
    assert len(found) == 1


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        (
            {"parallel.data": 3},
            "parallel.data",
            "3 x shard 1 x tensor 1 x pipeline.stages 1 = 3 is not the world size: 1 nodes x 1 processes = 1; "
            "accepted: auto or 1",
        ),
        (
            {"resources.nodes": 3, "parallel": {"data": 2, "shard": 2}},
            "parallel.data",
            "2 x shard 2 x tensor 1 x pipeline.stages 1 = 4 is not the world size: 3 nodes x 1 processes = 3; "
            "accepted: none with these degrees",
        ),
        (
            {"resources": {"nodes": 2, "processes_per_node": 3}, "parallel": {"shard": 2, "pipeline": {"stages": 2}}},
            "parallel",
            "shard 2 x tensor 1 x pipeline.stages 2 = 4 does not divide the world size: 2 nodes x 3 processes = 6",
        ),
        (
            {"resources.nodes": 3, "train.batch_size": 32, "train.accumulate": 2},
            "train.batch_size",
            "32 does not divide by accumulate 2 x data degree 3 = 6; the nearest that do: 30 or 36",
        ),
        (
            {"resources.nodes": 4, "parallel.shard": 2, "train.batch_size": 3},
            "train.batch_size",
            "3 does not divide by accumulate 1 x data degree 4 = 4; the nearest that do: 4",
        ),
        (
            pipeline(2, "1f1b", 3),
            "parallel.pipeline.microbatches",
            "3 does not fit the 32 samples that each copy of the model has in a pass (train.batch_size / "
            "train.accumulate / copies) over 2 stages with the schedule 1f1b; accepted: auto, 1, 2, 4, 8, 16, 32",
        ),
        (
            pipeline(2, "layer-wise", 2),
            "parallel.pipeline.microbatches",
            "over 2 stages with the schedule layer-wise; accepted: auto, 1",
        ),
        (
            pipeline(2, "interleaved", 5, **{"train.batch_size": 30}),
            "parallel.pipeline.microbatches",
            "over 2 stages with the schedule interleaved; accepted: auto, 1, 2, 3, 6, 10, 30",
        ),
        (
            pipeline(2, "zero-bubble", **{"train.compile": True}),
            "train.compile",
            "zero-bubble does not go with: it cuts each backward pass in two; accepted here: false",
        ),
        (
            pipeline(2, "zero-bubble", **{"train.activation_checkpointing": "selective"}),
            "train.activation_checkpointing",
            "zero-bubble does not go with: it cuts each backward pass in two; accepted here: none, full",
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_degrees_and_the_batch_must_multiply(changes: dict[str, Any], path: str, message: str) -> None:
    found = refusals(changes)
    assert message in found[path], found
    assert len(found) == 1


IDLE = [
    ("parallel.reshard_after_forward", False, "it goes with parallel.shard above 1, and parallel.shard is 1"),
    ("parallel.pipeline.schedule", "gpipe", "it goes with parallel.pipeline.stages above 1"),
    ("parallel.pipeline.microbatches", 4, "it goes with parallel.pipeline.stages above 1"),
    ("parallel.synchronization.every_steps", 20, "parallel.synchronization.kind local-sgd or diloco"),
    ("parallel.synchronization.outer_learning_rate", 0.5, "it goes with parallel.synchronization.kind diloco"),
    ("parallel.synchronization.outer_momentum", 0.5, "it goes with parallel.synchronization.kind diloco"),
    ("parallel.synchronization.max_staleness", 8, "it goes with parallel.synchronization.kind parameter-server"),
    ("train.scale_learning_rate", "linear", "it goes with train.find_batch_size memory or throughput"),
    ("checkpoint.keep", 5, "it goes with checkpoint.every_steps above 0"),
    ("early_stopping.min_delta", 0.5, "it goes with early_stopping.patience above 0"),
]
OFF: dict[str, Any] = {"checkpoint.every_steps": 0}


@pytest.mark.parametrize(("path", "value", "message"), IDLE, ids=lambda value: str(value)[:40])
def test_a_setting_that_nothing_would_read_is_refused(path: str, value: object, message: str) -> None:
    found = refusals({**OFF, path: value})
    assert found.keys() == {path}
    assert "would be ignored" in found[path] and message in found[path]
    assert found[path].endswith("or leave it out")


def test_every_setting_that_needs_another_is_tried_above() -> None:
    assert {info.path for info in form_fields() if info.needs} == {path for path, _, _ in IDLE}


def test_a_setting_of_another_kind_of_synchronization_is_refused() -> None:
    changes = {"resources.nodes": 2, "parallel.synchronization": {"kind": "local-sgd", "outer_momentum": 0.5}}
    assert (
        'parallel.synchronization.kind is "local-sgd"' in refusals(changes)["parallel.synchronization.outer_momentum"]
    )


def test_stages_hold_two_parts_where_the_schedule_goes_round_twice() -> None:
    found = {schedule: num_chunks(parsed(pipeline(2, schedule))) for schedule in ("1f1b", "interleaved", "zero-bubble")}
    assert found == {"1f1b": 1, "interleaved": 2, "zero-bubble": 2}
    assert num_chunks(parsed({})) == 1
