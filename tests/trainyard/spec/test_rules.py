"""What each field accepts alone and the whole cannot have: every refusal names its field and its numbers."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard.spec import RecipeSpec, SpecError, form_fields, merge, parse_spec
from trainyard.spec.strategies.pipeline import num_chunks

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
        (
            {"resources": {"processes_per_node": 2, "slots_per_process": 0.5}},
            "resources.slots_per_process",
            "0.5 is for a run of one rank, and this one has 1 x 2; accepted here: 1",
        ),
        ({"resources.slots_per_process": 0.7}, "resources.slots_per_process", "must be 1 over a whole number"),
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
        (
            {"resources.nodes": 2, "parallel.context": 2, "task.model.context": 90},
            "parallel.context",
            "2 does not divide the 90 tokens of task.model.context into two equal ranges for each rank",
        ),
        (
            {"resources.nodes": 2, "parallel.context": 2, "task": {"recipe": "tabular"}},
            "parallel.context",
            "2 goes with the recipe language-model only: rows of no other are sequences; accepted: 1",
        ),
        (
            {"resources.nodes": 2, "parallel.context": 2, "train.compile": True},
            "train.compile",
            "which parallel.context 2 does not go with: ranks exchange keys and values in its midst",
        ),
        ({"train": {"steps": 10, "warmup_steps": 11}}, "train.warmup_steps", "11 is more than the 10 steps"),
        (
            {"resources.nodes": 2, "train.precision": "fp16", "parallel.compression": "powersgd"},
            "parallel.compression",
            "which train.precision fp16 changes; accepted here: none, fp16, bf16",
        ),
        (
            {"resources.nodes": 2, "train.precision": "fp16", "parallel.compression": "topk"},
            "parallel.compression",
            "topk owes each step what the last has not sent",
        ),
        (
            {"resources.nodes": 2, "parallel.compression": "topk", "parallel.topk_ratio": 0},
            "parallel.topk_ratio",
            "must be more than 0, not 0",
        ),
        (
            {"resources.nodes": 2, "parallel.compression": "topk", "parallel.topk_ratio": 1.5},
            "parallel.topk_ratio",
            "must be at most 1, not 1.5",
        ),
        (
            {"early_stopping.patience": 3, "train.validate_every_steps": 0},
            "early_stopping.patience",
            "3 counts validations, and with train.validate_every_steps 0",
        ),
        (
            {"early_stopping.metric": "val/accuracy", "early_stopping.patience": 3},
            "early_stopping.metric",
            "val/accuracy is not measured by the recipe language-model; accepted here: val/loss",
        ),
        (
            {"task": {"recipe": "tabular"}, "early_stopping.metric": "val/r2", "early_stopping.patience": 3},
            "early_stopping.metric",
            "val/r2 is not measured by the recipe tabular on breast-cancer; accepted here: val/loss, val/accuracy",
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
    ("parallel.topk_ratio", 0.1, "it goes with parallel.compression topk"),
    ("train.scale_learning_rate", "linear", "it goes with train.find_batch_size memory or throughput"),
    ("checkpoint.keep", 5, "it goes with checkpoint.every_steps above 0"),
    ("checkpoint.replicate_every_steps", 20, "it goes with checkpoint.every_steps above 0"),
    ("early_stopping.min_delta", 0.5, "it goes with early_stopping.patience above 0"),
    ("array.at_once", 2, "array.size is 0"),
    ("array.index", 1, "array.size is 0"),
]
IDLE_OF = [
    ("language-model", "task.data.location", "/data/a.txt", "task.data.source text or jsonl"),
    ("language-model", "task.data.digest", "a" * 64, "task.data.source text or jsonl"),
    ("language-model", "task.data.text_field", "body", "it goes with task.data.source jsonl"),
    ("language-model", "task.data.vocabulary", 512, 'task.data.tokens bpe, and task.data.tokens is "bytes"'),
    ("image-classifier", "task.data.image_size", 16, "it goes with task.data.source images"),
    ("image-classifier", "task.model.patch", 4, "it goes with task.model.architecture vit"),
    ("image-classifier", "early_stopping.metric", "val/accuracy", "it goes with early_stopping.patience above 0"),
    ("image-classifier", "task.model.heads", 8, "it goes with task.model.architecture vit"),
    ("tabular", "task.data.target", "price", "it goes with task.data.source csv or parquet or npz"),
]
OFF: dict[str, Any] = {"checkpoint.every_steps": 0}


@pytest.mark.parametrize(
    ("kind", "path", "value", "message"),
    [*(("language-model", *one) for one in IDLE), *IDLE_OF],
    ids=lambda value: str(value)[:40],
)
def test_a_setting_that_nothing_would_read_is_refused(kind: str, path: str, value: object, message: str) -> None:
    found = refusals({**OFF, "task": {"recipe": kind}, path: value})
    assert found.keys() == {path}
    assert "would be ignored" in found[path] and message in found[path]
    assert found[path].endswith("or leave it out")


def test_every_setting_that_needs_another_is_tried_above() -> None:
    tried = {path for path, _, _ in IDLE} | {path for _, path, _, _ in IDLE_OF}
    assert {info.path for info in form_fields() if info.needs} == tried


VIT = {"recipe": "image-classifier", "model": {"architecture": "vit"}}
FOLDER = {"source": "images", "location": "/data/cats", "image_size": 30}


@pytest.mark.parametrize(
    ("task", "changes", "path", "message"),
    [
        (
            {"recipe": "image-classifier"},
            {"train.optimizer": "muon"},
            "train.optimizer",
            "muon is for matrices, and the kernels of a resnet have four dimensions; accepted here: adamw, sgd",
        ),
        (
            {"recipe": "image-classifier"},
            {"resources.nodes": 2, "parallel.tensor": 2},
            "parallel.tensor",
            "2 goes with transformers and MLPs only; accepted here: 1",
        ),
        (VIT, {"task.model.heads": 3}, "task.model.heads", "3 heads do not divide the width 128"),
        (VIT, {"task.model.patch": 3}, "task.model.patch", "3 does not divide the 8 pixels of an image's side"),
        (VIT, {"task.data": FOLDER, "task.model.patch": 4}, "task.model.patch", "4 does not divide the 30 pixels"),
        (
            {"recipe": "tabular", "model": {"width": 30}},
            {"resources.nodes": 4, "parallel.tensor": 4},
            "parallel.tensor",
            "4 does not divide the 30 features of task.model.width",
        ),
        (
            {"recipe": "language-model", "model": {"kv_heads": 3}},
            {},
            "task.model.kv_heads",
            "3 does not divide the 4 heads of task.model.heads",
        ),
        (
            {"recipe": "language-model", "model": {"base_width": 64}},
            {"train.optimizer": "muon"},
            "task.model.base_width",
            "adamw and sgd",
        ),
        ({"recipe": "tabular", "data": {"source": "csv"}}, {}, "task.data.location", "the source csv needs a file"),
        (
            {"recipe": "tabular", "data": {"source": "csv", "location": "../a.csv"}},
            {},
            "task.data.location",
            "must not lead upwards",
        ),
        ({"recipe": "tabular", "data": {"dataset": "a b"}}, {}, "task.data.dataset", "letters, digits, - and _"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_recipe_refuses(task: dict[str, Any], changes: dict[str, Any], path: str, message: str) -> None:
    found = refusals({"task": task, **changes})
    assert found.keys() == {path} and message in found[path], found


@pytest.mark.parametrize(
    "task",
    [
        VIT,
        {**VIT, "data": {"source": "npz", "location": "s3://bucket/a.npz"}, "model": {**VIT["model"], "patch": 3}},
        {"recipe": "tabular", "data": {"dataset": "prices"}},
        {"recipe": "language-model", "data": {"tokens": "bpe", "vocabulary": 512}, "model": {"kv_heads": 2}},
    ],
    ids=str,
)
def test_a_recipe_accepts(task: dict[str, Any]) -> None:
    spec = parsed({"task": task, "train.optimizer": "muon"})
    assert parse_spec(spec.resolved()) == spec


BENCHMARK: dict[str, Any] = {"name": "links", "task": {"recipe": "communication-benchmark"}, "resources": {"nodes": 2}}


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        ({"resources.nodes": 1}, "resources.nodes", "1 rank has nobody to talk to"),
        ({"task.operations": []}, "task.operations", "must name at least 1, not []"),
        ({"task.operations": ["ring", "ring"]}, "task.operations", 'once, and has "ring" 2 times'),
        ({"task.operations": ["gossip"]}, "task.operations.0", 'or compute, not "gossip"'),
        ({"task.smallest_bytes": 2**20, "task.largest_bytes": 8}, "task.smallest_bytes", "is more than"),
        ({"task.largest_bytes": 2**34}, "task.largest_bytes", "must be at most 1,073,741,824"),
        ({"task.model": {}}, "task.model", "is not a field of a spec"),
        ({"train.steps": 5}, "train", "means nothing to a benchmark, which trains nothing"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_benchmark_refuses(changes: dict[str, Any], path: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec(merge(BENCHMARK, changes))
    found = {problem.path: problem.message for problem in caught.value.errors}
    assert found.keys() == {path} and message in found[path], found


def test_one_rank_alone_may_measure_what_it_computes() -> None:
    alone = merge(BENCHMARK, {"resources.nodes": 1, "task.operations": ["compute"]})
    assert not isinstance(parse_spec(alone), RecipeSpec)


def test_a_setting_of_another_kind_of_synchronization_is_refused() -> None:
    changes = {"resources.nodes": 2, "parallel.synchronization": {"kind": "local-sgd", "outer_momentum": 0.5}}
    assert (
        'parallel.synchronization.kind is "local-sgd"' in refusals(changes)["parallel.synchronization.outer_momentum"]
    )


def test_stages_hold_two_parts_where_the_schedule_goes_round_twice() -> None:
    found = {schedule: num_chunks(parsed(pipeline(2, schedule))) for schedule in ("1f1b", "interleaved", "zero-bubble")}
    assert found == {"1f1b": 1, "interleaved": 2, "zero-bubble": 2}
    assert num_chunks(parsed({})) == 1
