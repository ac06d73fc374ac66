"""The machines of a run in one picture, beside what its nodes have said."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from runs.models import Node, Run, User
from runs.records.metrics.models import NodeSample
from runs.records.metrics.progress import ReportedFact, write_facts
from runs.values.columns import SlowRank
from runs.values.status import Phase, Status
from tests.cast import Cast, make_attempt, make_node, spec
from trainyard.contract.base import to_builtins
from trainyard.spec import parse_spec

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
MakeRun = Callable[..., Run]


def health(*busy: float | None, **more: Any) -> dict[str, Any]:
    gpus = [
        {"index": index, "utilization_percent": one, "memory_bytes": 80 * 2**30, "memory_used_bytes": 60 * 2**30}
        for index, one in enumerate(busy)
    ]
    return {"cpu_percent": 40.0, "memory_bytes": 2**34, "memory_used_bytes": 2**33, "gpus": gpus, **more}


def test_each_node_has_a_row_and_each_gpu_that_the_run_holds_a_cell(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    nodes = [make_node(cast.cluster, name, slots=4) for name in ("one", "two")]
    for node, busy in zip(nodes, [(97.0, 12.0, 50.0), (None, float(0), 99.0)], strict=True):
        node.health = health(*busy)
        node.save()
    run = make_run(status=Status.RUNNING)
    make_attempt(run, nodes, ranks=2)  # of three GPUs each
    answer = as_user(cast.viewer).get(f"/runs/{run.pk}/system/")
    found = answer.context["machines"]
    assert [(one.node.name, one.ranks, one.is_old) for one in found] == [
        ("one", "0 to 1", False),
        ("two", "2 to 3", False),
    ]
    assert [[(cell.text, cell.tenths) for cell in one.cells] for one in found] == [
        [("97", 10), ("12", 1)],
        [("–", None), ("0", 0)],
    ]
    assert found[0].cells[0].words == "GPU 0: 97 % busy, memory 60.0 GiB of 80.0 GiB"
    assert [gauge.value for gauge in found[0].gauges][:2] == ["40 %", "50 %"]
    text = answer.content.decode()
    assert 'class="gpu-cell heat-10" title="GPU 0: 97 % busy' in text


def test_an_attempt_that_has_ended_shows_its_end_and_not_what_the_node_does_now(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    node, ended = make_node(cast.cluster, health=health(3.0)), timezone.now() - timedelta(hours=2)
    run = make_run(status=Status.SUCCEEDED, ended_at=ended)
    attempt = make_attempt(run, [node], ended_at=ended)
    attempt.placements.get().held_slots.all().delete()
    for seconds, busy in ((-5.0, 88.0), (5.0, 1.0)):
        NodeSample.objects.create(node_id=node.pk, at=ended.timestamp() + seconds, health=health(busy))
    [found] = as_user(cast.viewer).get(f"/runs/{run.pk}/system/").context["machines"]
    assert ([cell.text for cell in found.cells], found.is_old, found.at) == (["88"], True, ended)


def test_a_node_that_is_silent_says_how_old_its_figures_are(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    seen = timezone.now() - timedelta(minutes=5)
    run = make_run(status=Status.RUNNING)
    make_attempt(run, [make_node(cast.cluster, health=health(3.0), seen_at=seen)])
    text = as_user(cast.viewer).get(f"/runs/{run.pk}/system/?fragment=system").content.decode()
    assert "5 min ago" in text


def test_a_run_without_a_place_and_one_from_elsewhere_say_so(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    client = as_user(cast.viewer)
    assert "not been placed" in client.get(f"/runs/{make_run().pk}/system/").content.decode()
    outside = make_run(local_id="abc", status=Status.RUNNING)
    assert "outside of Trainyard" in client.get(f"/runs/{outside.pk}/system/?fragment=system").content.decode()


def test_a_node_that_said_nothing_has_no_figures(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run = make_run(status=Status.RUNNING)
    make_attempt(run, [make_node(cast.cluster)])
    assert "No sample was kept." in as_user(cast.viewer).get(f"/runs/{run.pk}/system/").content.decode()


# The drawing above the table.

SHAPE = {"resources": {"nodes": 2, "processes_per_node": 2}, "parallel": {"tensor": 2}}


def network(received: float, sent: float) -> dict[str, Any]:
    return health(network_received_bytes_per_s=received, network_sent_bytes_per_s=sent)


def drawn(cast: Cast, as_user: AsUser, run: Run) -> tuple[Any, str]:
    """The drawing, and its markup without line breaks."""
    answer = as_user(cast.viewer).get(f"/runs/{run.pk}/system/?fragment=system")
    assert answer.status_code == 200
    text = re.sub(r"\s+", " ", answer.content.decode())
    return answer.context["drawing"], text.partition('class="card system"')[0]


def test_the_drawing_has_nodes_with_what_they_measured_ranks_and_their_groups(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    nodes = [
        make_node(cast.cluster, "one", health=network(3 * 2**20, 5 * 2**20)),
        make_node(cast.cluster, "two", health=network(7 * 2**20, 0.0)),
    ]
    run = make_run(status=Status.RUNNING, spec=parse_spec(spec(**SHAPE)).resolved())
    attempt = make_attempt(run, nodes, ranks=2, phase=Phase.RUNNING)
    attempt.slow_ranks = to_builtins([SlowRank(rank=3, node="two", times=2.1, since_step=1_000, last_step=1_240)])
    attempt.save()
    found, text = drawn(cast, as_user, run)
    assert [(axis.name, axis.degree, [(one.span, one.nodes) for one in groups], more)
            for axis, groups, more in found.axes] == [
        ("data", 2, [("0, 2", ["one", "two"]), ("1, 3", ["one", "two"])], 0),
        ("tensor", 2, [("0 and 1", ["one"]), ("2 and 3", ["two"])], 0),
    ]  # fmt: skip
    assert [(one.machine.node.name, one.machine.state, [rank.rank for rank in one.ranks]) for one in found.nodes] == [
        ("one", "in contact", [0, 1]),
        ("two", "slow", [2, 3]),
    ]
    assert "one receives 3.0 MiB/s and sends 5.0 MiB/s, all programs on its machine together." in text
    assert '<text x="52" y="11">7.0 MiB/s</text><text x="52" y="32">0 B/s</text>' in text
    assert "to which node is not measured" in text
    assert "Rank 3 on two, data 1, tensor 1: " in text and "Rank 3 on two has been 2.1 times as slow" in text
    assert "Ranks 1, 3 are one data group over the network, on 2 nodes. One of them is slow" in text
    assert "Ranks 0 and 1 are one tensor group inside one." in text
    assert "2 copies of the model share the batch" in text and "Between nodes" not in text


def test_a_drawing_of_one_node_has_no_network(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    document = spec(resources={"nodes": 1, "processes_per_node": 2}, parallel={"tensor": 2})
    run = make_run(status=Status.RUNNING, spec=parse_spec(document).resolved())
    make_attempt(run, [make_node(cast.cluster, "one", health=network(1.0, 1.0))], ranks=2, phase=Phase.RUNNING)
    found, text = drawn(cast, as_user, run)
    assert len(found.nodes) == 1 and "Ranks 0 and 1 are one tensor group inside one." in text
    assert "drawing-edge" not in text and "drawing-network" not in text


def test_of_many_nodes_some_are_drawn_and_those_that_are_slow_or_silent_always(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    document = spec(
        resources={"nodes": 64, "processes_per_node": 8}, parallel={"tensor": 4}, train={"batch_size": 512, "steps": 9}
    )
    run = make_run(status=Status.RUNNING, spec=parse_spec(document).resolved())
    nodes = [make_node(cast.cluster, f"n{number}", slots=8) for number in range(64)]
    seen = timezone.now() - timedelta(minutes=5)
    Node.objects.filter(pk=nodes[40].pk).update(seen_at=seen, health=network(2**20, 2**20))
    attempt = make_attempt(run, nodes, ranks=8, phase=Phase.RUNNING)
    attempt.slow_ranks = to_builtins([SlowRank(rank=509, node="n63", times=2.1)])
    attempt.save()
    found, text = drawn(cast, as_user, run)
    assert [one.machine.node.name for one in found.nodes] == [*(f"n{number}" for number in range(14)), "n40", "n63"]
    assert found.num_hidden == 48 and "and 48 more nodes, all of which the table below has" in text
    assert "n40 is out of contact: its last word came" in text and "as its node reported last" in text
    assert "n40 receives 1.0 MiB/s and sends 1.0 MiB/s, all programs on its machine together, as of" in text
    assert "What n63 receives and sends was not measured." in text
    data, tensor = found.axes
    assert (len(data[1]), data[2], len(tensor[1]), tensor[2]) == (4, 0, 16, 112)
    assert [one.span for one in tensor[1]][-4:] == ["48 to 51", "320 to 323", "324 to 327", "508 to 511"]


def test_more_nodes_in_trouble_than_are_drawn_are_drawn_all(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    document = spec(resources={"nodes": 20}, train={"steps": 9, "batch_size": 40})
    run = make_run(status=Status.RUNNING, spec=parse_spec(document).resolved())
    silent = [make_node(cast.cluster, seen_at=None) for _ in range(18)]
    make_attempt(run, [*silent, make_node(cast.cluster), make_node(cast.cluster)], phase=Phase.RUNNING)
    found, _ = drawn(cast, as_user, run)
    assert (len(found.nodes), found.num_hidden) == (18, 2)


def test_names_with_markup_are_drawn_as_text(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    nasty, other = "<img src=x onerror=alert(1)>", '"></svg><script>'
    benchmark = {"name": "links", "task": {"recipe": "communication-benchmark"}, "resources": {"nodes": 2}}
    run = make_run(status=Status.RUNNING, spec=parse_spec(benchmark).resolved())
    attempt = make_attempt(run, [make_node(cast.cluster, nasty), make_node(cast.cluster, other)], phase=Phase.RUNNING)
    links = [{"from": nasty, "to": other, "latency_s": 0.0001, "bytes_per_s": 3 * 2**30}]
    facts = ReportedFact("communication", {"world_size": 2, "links": links}, 1.0)
    write_facts(run.pk, attempt=attempt.fence, items=[(0, facts)])
    found, text = drawn(cast, as_user, run)
    assert [one.bytes_per_s for one in found.links] == [3 * 2**30] and "3.0 GiB/s" in text
    assert "<img" not in text and "<script" not in text and "&lt;img src=x" in text


def test_a_script_may_report_what_it_likes_and_draws_no_links(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    script = {"name": "own", "task": {"script": "train.py", "code": "."}, "resources": {"nodes": 2}}
    run = make_run(status=Status.RUNNING, spec=parse_spec(script).resolved())
    attempt = make_attempt(run, [make_node(cast.cluster), make_node(cast.cluster)], phase=Phase.RUNNING)
    links = [{"from": "a", "to": "b", "latency_s": 0.0001, "bytes_per_s": 1e9}]
    write_facts(run.pk, attempt=attempt.fence, items=[(0, ReportedFact("communication", {"links": links}, 1.0))])
    found, text = drawn(cast, as_user, run)
    assert (found.links, found.axes) == ([], [])
    assert "it is not known here" in text
