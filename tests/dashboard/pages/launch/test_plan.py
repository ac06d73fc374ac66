"""The drawing of the mesh: boxes, squares, and what is said of each."""

from __future__ import annotations

from typing import Any

import pytest

from dashboard.pages.launch.plan import MAX_NODES, MAX_RANKS, NUM_COLOURS, draw
from trainyard.spec import merge, parse_spec

RECIPE: dict[str, Any] = {"name": "x", "task": {"recipe": "language-model"}}


def drawn(changes: dict[str, Any], **more: Any) -> Any:
    return draw(parse_spec(merge(RECIPE, changes)), **more)


THREE_AXES = {
    "resources": {"nodes": 2, "processes_per_node": 4},
    "parallel": {"tensor": 2, "pipeline": {"stages": 2}},
}


def test_every_rank_says_where_it_stands() -> None:
    drawing = drawn(THREE_AXES, names=["node-a"])
    assert [box.name for box in drawing.boxes] == ["node-a", "node 2"]
    assert [rank.number for box in drawing.boxes for rank in box.ranks] == list(range(8))
    assert drawing.boxes[0].ranks[3].words == "rank 3 on node-a: stage 0, copy 1, slice 1"
    assert drawing.boxes[1].ranks[0].words == "rank 4 on node 2: stage 1, copy 0, slice 0"


@pytest.mark.parametrize(
    ("chosen", "marks"),
    [
        ("", ["p0", "p0", "p0", "p0", "p1", "p1", "p1", "p1"]),
        ("pipeline", ["p0", "p0", "p0", "p0", "p1", "p1", "p1", "p1"]),
        ("data", ["d0", "d0", "d1", "d1", "d0", "d0", "d1", "d1"]),
        ("tensor", ["t0", "t1"] * 4),
        ("shard", ["p0", "p0", "p0", "p0", "p1", "p1", "p1", "p1"]),  # not in use: as if nothing was chosen
        ("<b>", ["p0", "p0", "p0", "p0", "p1", "p1", "p1", "p1"]),
    ],
)
def test_one_axis_gives_the_marks_and_the_colours(chosen: str, marks: list[str]) -> None:
    drawing = drawn(THREE_AXES, chosen=chosen)
    ranks = [rank for box in drawing.boxes for rank in box.ranks]
    assert [rank.mark for rank in ranks] == marks
    assert [rank.colour for rank in ranks] == [int(mark[1]) + 1 for mark in marks]
    assert drawing.chosen == {"d": "data", "p": "pipeline", "t": "tensor"}[marks[0][0]]


def test_only_axes_above_one_are_offered() -> None:
    assert [(axis.name, axis.degree, axis.marks) for axis in drawn(THREE_AXES).axes] == [
        ("pipeline", 2, "p0 to p1"),
        ("data", 2, "d0 to d1"),
        ("tensor", 2, "t0 to t1"),
    ]
    alone = drawn({})
    assert (alone.axes, alone.chosen, alone.boxes[0].ranks[0].words) == ([], "", "rank 0 on node 1")


def test_colours_begin_again_after_the_last() -> None:
    colours = [rank.colour for box in drawn({"resources.nodes": 16}).boxes for rank in box.ranks]
    assert colours[:NUM_COLOURS] == list(range(1, NUM_COLOURS + 1)) and colours[NUM_COLOURS] == 1


@pytest.mark.parametrize(("each", "density"), [(8, ""), (12, "is-dense"), (32, "is-dense is-wide")])
def test_many_ranks_are_drawn_small(each: int, density: str) -> None:
    drawing = drawn({"resources": {"nodes": 4, "processes_per_node": each}, "train.batch_size": 4 * each})
    assert drawing.density == density


def test_a_script_has_ranks_and_no_axes() -> None:
    script = {"name": "x", "task": {"script": "a.py"}, "resources": {"nodes": 2}}
    drawing = draw(parse_spec(script))
    assert drawing.axes == [] and drawing.density == "" and [box.ranks[0].mark for box in drawing.boxes] == ["", ""]


@pytest.mark.parametrize(("nodes", "each"), [(1, 1024), (24, 64), (10_000, 1), (3, 100)])
def test_what_is_not_drawn_is_counted(nodes: int, each: int) -> None:
    batch = {"train.batch_size": nodes * each}
    drawing = drawn({"resources": {"nodes": nodes, "processes_per_node": each}, **batch})
    shown = sum(len(box.ranks) for box in drawing.boxes)
    assert shown <= MAX_RANKS and len(drawing.boxes) <= MAX_NODES
    assert drawing.num_hidden == nodes - len(drawing.boxes)
    assert shown + sum(box.num_hidden for box in drawing.boxes) == len(drawing.boxes) * each
    assert drawing.num_ranks == nodes * each


def test_a_pipeline_is_said_to_keep_what_its_shards_gather() -> None:
    split = {"resources.nodes": 4, "parallel": {"shard": 2, "pipeline": {"stages": 2}}}
    assert drawn(split).axes[1].sentence.endswith("keep it until the backward pass.")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "average their gradients in each step."),
        ({"parallel.compression": "bf16"}, "in each step, sent as bf16."),
        ({"parallel.compression": "powersgd"}, "in each step, compressed by PowerSGD."),
        ({"parallel.compression": "topk"}, "in each step, each sending the largest 1 % of the entries."),
        ({"parallel.synchronization": {"kind": "local-sgd", "every_steps": 1}}, "average their weights every step."),
        ({"parallel.synchronization": {"kind": "diloco", "every_steps": 20}}, "every 20 steps one outer step"),
        (
            {"parallel.synchronization": {"kind": "parameter-server"}},
            "to rank 0 and fetch its weights, at most 4 steps",
        ),
        ({"parallel.shard": 2}, "gather a block when it is needed and drop it again after use."),
        ({"parallel": {"shard": 2, "reshard_after_forward": False}}, "keep it until the backward pass."),
        ({"parallel.tensor": 2}, "2 ranks split each layer, its sequence and its loss"),
        ({"parallel.pipeline.stages": 2}, "4 microbatches flow through them (1f1b)."),
        ({"parallel.pipeline.stages": 2, "train.batch_size": 1}, "one microbatch flows through them (1f1b)."),
        ({"parallel.pipeline": {"stages": 2, "schedule": "layer-wise"}}, "the batch is in one of them at a time."),
    ],
    ids=str,
)
def test_each_axis_is_told_in_one_plain_sentence(changes: dict[str, Any], words: str) -> None:
    drawing = drawn({"resources.nodes": 2, **changes})
    assert len(drawing.axes) == 1
    assert words in drawing.axes[0].sentence and drawing.axes[0].sentence.count(".") == 1
