"""The drawing of the mesh: boxes, squares, and what is said of each."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from dashboard.pages.launch import plan as launch_cost
from dashboard.pages.launch.plan import MAX_NODES, MAX_RANKS, NUM_COLOURS, draw
from dashboard.pages.launch.spec_form import typed_of
from runs.models import Membership, Project, Role, Run, User
from runs.records.metrics.models import Fact
from runs.values.status import Status
from tests.cast import Cast, make_attempt, make_node, spec
from trainyard.planner import default_rates
from trainyard.spec import merge, parse_spec

RECIPE: dict[str, Any] = {"name": "x", "task": {"recipe": "language-model"}}


def drawn(changes: dict[str, Any], **more: Any) -> Any:
    return draw(parse_spec(merge(RECIPE, changes)), **more)


THREE_AXES = {"resources": {"nodes": 2, "processes_per_node": 4}, "parallel": {"tensor": 2, "pipeline": {"stages": 2}}}


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


# The right column of the launch page: what the run would cost, and what would cost less.

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
CPU = {"hostname": "box", "cpu": {"model": "A CPU", "count": 4}, "memory_bytes": 8 * 2**30, "gpus": []}
BENCHMARK = {"name": "links", "task": {"recipe": "communication-benchmark"}, "resources": {"nodes": 2}}


@pytest.fixture
def preview(as_user: AsUser, cast: Cast) -> Callable[..., str]:
    """``preview(path=text, …)``: the column for the small spec with these fields changed."""
    for name in ("a", "b"):
        make_node(cast.cluster, name, inventory=CPU)

    def look(**changes: str) -> str:
        typed = {**typed_of(parse_spec(spec()).resolved()), "resources.nodes": "2", **changes}
        answer = as_user(cast.mate).post("/launch/preview/", typed)
        assert answer.status_code == 200
        return answer.content.decode()

    return look


def test_it_says_time_memory_and_traffic_and_that_speeds_are_assumed(preview: Callable[..., str]) -> None:
    text = preview()
    assert "Each of the 2 ranks" in text and "of the 4.0 GiB that its node has for it" in text
    assert "All 300 steps" in text and "Sent in a step" in text and "assumed speeds" in text
    assert "/launch/?from=measure%3Alocal%402x1" in text


def test_a_run_that_waits_reads_when_it_starts_and_what_a_smaller_shape_gains(
    preview: Callable[..., str], cast: Cast, make_run: Callable[..., Run]
) -> None:
    run = make_run(status=Status.RUNNING, limit_s=3_660.0, num_nodes=1, slots_per_node=2)
    make_attempt(run, [cast.cluster.nodes.get(name="a")], ranks=2)
    text = " ".join(preview().split())
    assert "It would start about <time data-clock=" in text and "Waiting for 1 more node" in text
    assert re.search(r"On 1 instead of 2: starts at once instead of in (1 h|59 min)", text)
    assert 'data-fields="{ &quot;resources.nodes&quot;: 1 }"' in text and 'data-words="1 rank"' in text
    Run.objects.update(limit_s=None)
    text = " ".join(preview().split())
    assert "It would start about" not in text and "On 1 instead of 2: starts at once </p>" in text


def test_stages_have_a_bar_each_and_a_better_plan_a_button_with_the_fields_that_it_fills(
    preview: Callable[..., str],
) -> None:
    text = preview(**{"parallel.pipeline.stages": "2"})
    assert "Best plan: " in text
    assert "Rank 0, stage 0" in text and "Rank 1, stage 1" in text and "Pipeline bubble" in text
    assert 'data-fields="{&quot;parallel.pipeline.stages&quot;: &quot;1&quot;' in text


def test_what_fits_no_node_is_said_in_red(preview: Callable[..., str]) -> None:
    text = preview(**{"task.model.width": "8192", "task.model.layers": "24"})
    assert "more than the 4.0 GiB that its node has for it" in text


def test_measured_speeds_are_named_with_the_run_that_measured_them(
    preview: Callable[..., str], cast: Cast, make_run: Callable[..., Run]
) -> None:
    run = make_run(spec=parse_spec(BENCHMARK).resolved(), status=Status.SUCCEEDED, fence=1)
    make_attempt(run, list(cast.cluster.nodes.all()), fence=1, number=1)
    rates = {**default_rates("cpu").as_document(), "is_measured": True}
    Fact.objects.create(run_id=run.pk, attempt=1, name="rates", rank=0, data=rates, at=1.0)
    text = preview()
    assert "measured on this cluster" in text and f"/runs/{run.pk}/" in text and "assumed speeds" not in text


def test_a_benchmark_of_another_project_is_counted_with_and_not_named(
    preview: Callable[..., str], as_user: AsUser, cast: Cast, make_run: Callable[..., Run]
) -> None:
    project = Project.objects.create(name="own")
    cast.cluster.projects.add(project)
    Membership.objects.create(project=project, user=cast.outsider, role=Role.MEMBER)
    run = make_run(spec=parse_spec(BENCHMARK).resolved(), status=Status.SUCCEEDED, fence=1)
    make_attempt(run, list(cast.cluster.nodes.all()), fence=1, number=1)
    rates = {**default_rates("cpu").as_document(), "is_measured": True}
    Fact.objects.create(run_id=run.pk, attempt=1, name="rates", rank=0, data=rates, at=1.0)
    typed = {**typed_of(parse_spec(spec(project="own")).resolved()), "resources.nodes": "2"}
    text = as_user(cast.outsider).post("/launch/preview/", typed).content.decode()
    assert "measured on this cluster" in text and "assumed speeds" not in text and run.pk not in text


@pytest.mark.parametrize(
    "changes",
    [
        {"task": "script", "task.script": "a.py", "task.code": "a" * 64},
        {"task": "communication-benchmark", "task.operations": "compute"},
        {"train.steps": "soon"},
        {"resources.nodes": "9", "train.batch_size": "36"},
    ],
    ids=["script", "benchmark", "bad", "too-large"],
)
def test_what_the_planner_knows_nothing_of_has_no_cost(preview: Callable[..., str], changes: dict[str, str]) -> None:
    assert "cost-title" not in preview(**changes)


def test_a_run_that_waits_is_planned_for_the_nodes_that_it_waits_for(preview: Callable[..., str], cast: Cast) -> None:
    cast.cluster.nodes.update(is_draining=True)
    text = preview()
    assert "draining" in text and "Each of the 2 ranks" in text


def test_a_planner_that_breaks_leaves_the_rest_of_the_column(
    preview: Callable[..., str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("of a kind that nobody thought of")

    monkeypatch.setattr(launch_cost.planning.planner, "estimate", broken)
    text = preview()
    assert "The planner could not work this one out." in text and "It would start at once" in text
    assert "no estimate could be made" in caplog.text


def test_a_world_that_is_too_large_for_every_keystroke_is_left_to_the_command_line(
    preview: Callable[..., str], cast: Cast
) -> None:
    cast.cluster.nodes.update(slots=512)
    text = preview(**{"resources.processes_per_node": "200", "train.batch_size": "400"})
    assert "More than 256 ranks are not worked out here" in text


@pytest.mark.parametrize(
    ("where", "words"),
    [("local@2x1", ('value="rates-2x1"', 'value="send-receive" checked')), ("local@1x1", ('value="rates-1x1"',))],
)
def test_the_form_of_a_measurement_is_filled_with_the_shape_that_is_to_be_measured(
    as_user: AsUser, cast: Cast, where: str, words: tuple[str, ...]
) -> None:
    text = as_user(cast.mate).get("/launch/", {"from": f"measure:{where}"}).content.decode()
    assert all(one in text for one in words)
    assert ('value="send-receive" checked' in text) == (where == "local@2x1")


@pytest.mark.parametrize(
    "where", ["", "local", "local@x", "local@2xmany", "@1x1", f"local@{'9' * 5_000}x1"], ids=lambda where: where[:20]
)
def test_what_is_no_shape_cannot_be_measured(as_user: AsUser, cast: Cast, where: str) -> None:
    assert as_user(cast.mate).get("/launch/", {"from": f"measure:{where}"}).status_code == 404


@pytest.fixture
def measured(cast: Cast, make_run: Callable[..., Run]) -> Callable[..., Run]:
    """``measured(step_s)``: a run of the small spec on both nodes whose steps took so long."""

    def make(step_s: float, nodes: list[str] | None = None, **changes: Any) -> Run:
        document = parse_spec({**spec(**changes), "resources": {"nodes": 2}}).resolved()
        run = make_run(spec=document, name="slowly", status=Status.SUCCEEDED)
        make_attempt(run, list(cast.cluster.nodes.filter(name__in=nodes or ["a", "b"])), ranks=0)
        facts = {"step": 9, "num_steps": 5, "step_time_s": step_s}
        Fact.objects.create(run_id=run.pk, attempt=1, name="measured", rank=0, data=facts, at=1.0)
        return run

    return make


def test_runs_of_the_shape_say_how_long_a_step_takes_and_no_guess_stands_beside_them(
    preview: Callable[..., str], measured: Callable[..., Run]
) -> None:
    for step_s in (50.0, 60.0, 90.0):
        measured(step_s)
    text = " ".join(preview(**{"train.learning_rate": "0.5"}).split())
    assert 'A step takes <b class="strong">60 s</b>, measured over 3 runs of this plan' in text
    assert "about 5 h" in text, "300 steps of a minute"
    assert "Slot-hours</dt><dd>10" in text, "of two ranks"
    assert "assumed" not in text and "One step" not in text
    other = preview(**{"train.batch_size": "64"})
    assert "measured over" not in other and "assumed speeds" in other and "One step" in other


def test_a_clone_counts_with_its_own_run_however_long_ago_that_was(
    preview: Callable[..., str], measured: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = measured(60.0)
    measured(90.0)
    monkeypatch.setattr(launch_cost, "NUM_LOOKED_AT", 1)
    assert "90 s" in preview()
    assert "75 s" in preview(**{"from": f"run:{run.pk}"}), "the middle of both"


def test_runs_on_other_machines_or_of_projects_that_one_does_not_see_measure_nothing(
    preview: Callable[..., str], measured: Callable[..., Run], cast: Cast
) -> None:
    make_node(cast.cluster, "c", inventory={**CPU, "cpu": {"model": "Another CPU", "count": 4}})
    cast.cluster.nodes.filter(name="c").update(is_draining=True)
    measured(60.0, nodes=["a"])
    measured(60.0, nodes=["a", "c"])
    hidden = measured(60.0)
    hidden.project = Project.objects.create(name="hidden")
    hidden.save()
    assert "measured over" not in preview()
