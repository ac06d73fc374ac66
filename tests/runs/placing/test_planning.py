"""What the planner is told of a cluster, and what is kept of its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from runs.actions import submit_run
from runs.models import Dataset, HeldSlot, Run
from runs.placing import planning
from runs.placing.fitting import Waiting
from runs.placing.planning import (
    costs,
    data_facts,
    estimate_for,
    frozen_estimate,
    known_rates,
    likely_nodes,
    node_facts,
    rooms_of,
    would_travel,
)
from runs.placing.queue import NEW, Ahead, request_of, requests_of, waiting_runs
from runs.records.metrics.models import Fact
from runs.values.status import Status
from tests.cast import Cast, make_attempt, make_node, spec
from trainyard.planner import Estimate, default_rates
from trainyard.spec import RecipeSpec, parse_spec
from trainyard.spec.needs import Needs

pytestmark = pytest.mark.django_db
MakeRun = Callable[..., Run]
CPU = {"hostname": "box", "cpu": {"model": "A CPU", "count": 4}, "memory_bytes": 8 * 2**30, "gpus": []}
GPU = {**CPU, "gpus": [{"name": "A GPU", "memory_bytes": 80 * 2**30}, {"name": "A GPU", "memory_bytes": 40 * 2**30}]}


def recipe(**changes: Any) -> RecipeSpec:
    found = parse_spec(spec(**changes))
    assert isinstance(found, RecipeSpec)
    return found


def benchmark(cast: Cast, make_run: MakeRun, nodes: list[Any], data: Any, **changes: Any) -> Run:
    document = {"name": "links", "task": {"recipe": "communication-benchmark"}, "resources": {"nodes": 2}}
    run = make_run(spec=parse_spec(document).resolved(), **{"status": Status.SUCCEEDED, **changes})
    make_attempt(run, nodes)
    HeldSlot.objects.all().delete()
    Run.objects.filter(pk=run.pk).update(fence=1)
    Fact.objects.create(run_id=run.pk, attempt=1, name="rates", rank=0, data=data, at=1.0)
    return run


def measured(**changes: Any) -> dict[str, Any]:
    return {**default_rates("cpu").as_document(), "is_measured": True, **changes}


def test_a_nodes_facts_are_those_of_its_inventory(cast: Cast) -> None:
    nodes = [make_node(cast.cluster, "a", inventory=CPU), make_node(cast.cluster, "b", inventory=GPU)]
    cpu, gpu = node_facts(nodes)
    assert (cpu.name, cpu.accelerator, cpu.cores, cpu.memory_bytes, cpu.device, cpu.host) == (
        "a", "cpu", 4, 8 * 2**30, "A CPU", "box"
    )  # fmt: skip
    assert cpu.device_memory_bytes is None
    shared = {**CPU, "cpu": {"count": 4, "machine_count": 16}}
    assert node_facts([make_node(cast.cluster, "c", inventory=shared)])[0].cores == 16, "which all its nodes share"
    assert (gpu.accelerator, gpu.device, gpu.device_memory_bytes) == ("gpu", "A GPU", 40 * 2**30), "its smallest counts"


@pytest.mark.parametrize("inventory", [{}, {"cpu": "fast", "memory_bytes": "much"}, {"cpu": {"count": -1}}])
def test_what_a_node_did_not_say_counts_as_little(cast: Cast, inventory: dict[str, Any]) -> None:
    (facts,) = node_facts([make_node(cast.cluster, "a", inventory=inventory)])
    assert (facts.cores, facts.memory_bytes, facts.host) == (2, 0, "a")


def test_a_run_would_be_placed_where_scheduling_would_place_it(cast: Cast) -> None:
    nodes = [make_node(cast.cluster, name) for name in ("c", "a", "b")]
    assert [node.name for node in likely_nodes(recipe(resources={"nodes": 2}), nodes)] == ["a", "b"]
    assert likely_nodes(recipe(resources={"nodes": 4}), nodes) == []


def test_what_a_run_needs_is_read_of_its_row_and_where_nodes_stand_of_their_labels(cast: Cast) -> None:
    cast.cluster.topology = ["switch", "rack"]
    cast.cluster.save()
    nodes = [
        make_node(cast.cluster, name, inventory={**CPU, "labels": {"rack": rack, "switch": "s1"}})
        for name, rack in (("a", "r1"), ("b", "r2"), ("c", "r2"))
    ]
    assert [one.place for one in rooms_of(nodes, timezone.now())] == [("s1", "r1"), ("s1", "r2"), ("s1", "r2")]
    assert [node.name for node in likely_nodes(recipe(resources={"nodes": 2}), nodes)] == ["b", "c"]
    run = submit_run(actor=cast.mate, document=spec(resources={"labels": {"rack": "r3"}, "cpus": 2}))
    (request,) = requests_of(waiting_runs(cast.cluster))
    assert request.needs == request_of(run.pk, run.spec).needs
    assert request.needs and (request.needs.labels, request.needs.cpus) == ((("rack", "r3"),), 2)
    ahead = Ahead(cast.cluster, rooms_of(nodes, now := timezone.now()), now)
    answer, _ = ahead.prospect(request_of(NEW, run.spec))
    assert isinstance(answer, Waiting) and "this run needs label rack=r3: no node here has one" in answer.sentence


def test_it_says_how_much_would_travel_where_that_is_known(cast: Cast) -> None:
    location = "s3://bucket/rows.csv"
    data = {"recipe": "tabular", "data": {"source": "csv", "location": location, "dataset": "prices"}}
    document = recipe(task=data, resources={"nodes": 2}).resolved()
    (key,) = (request_of("", document).needs or Needs()).kept
    empty = [make_node(cast.cluster, name, inventory={**CPU, "kept": {}}) for name in "ab"]
    full = make_node(cast.cluster, "c", inventory={**CPU, "kept": {key: 0}})
    assert would_travel(document, empty) == "", "nobody knows how much it is"
    Dataset.objects.create(
        project=cast.project, cluster=cast.cluster, name="prices", source="csv", location=location,
        size_bytes=3 * 2**30,
    )  # fmt: skip
    assert would_travel(document, empty) == "6.0 GiB would travel to 2 of 2 nodes."
    assert would_travel(document, [empty[0], full]) == "3.0 GiB would travel to 1 of 2 nodes."
    assert would_travel(document, [full]) == ""
    older = make_node(cast.cluster, "d", inventory=CPU)
    assert would_travel(document, [older]) == "", "it does not say what it has"
    assert would_travel(recipe().resolved(), empty) == "", "its data is built in"


def test_the_size_of_an_image_is_known_from_any_node_that_has_it(cast: Cast) -> None:
    task = {"script": "a.py", "code": {"sha256": "a" * 64}}
    document = parse_spec({"name": "x", "task": task, "environment": {"container": "registry.example/a:1"}}).resolved()
    (key,) = (request_of("", document).needs or Needs()).kept
    empty = make_node(cast.cluster, inventory={**CPU, "kept": {}})
    full = make_node(cast.cluster, inventory={**CPU, "kept": {key: 2**31}})
    assert would_travel(document, [empty], [empty, full]) == "2.0 GiB would travel to 1 of 1 node."
    assert would_travel(document, [empty]) == ""


def test_rates_that_nobody_measured_are_the_usual_ones(cast: Cast) -> None:
    found = known_rates(cast.cluster, [make_node(cast.cluster, inventory=CPU)])
    assert found.run_id == "" and not found.rates.is_measured
    assert known_rates(cast.cluster).rates == default_rates("cpu", "")


def test_the_newest_benchmark_that_succeeded_says_the_rates(cast: Cast, make_run: MakeRun) -> None:
    nodes = [make_node(cast.cluster), make_node(cast.cluster)]
    benchmark(cast, make_run, nodes, measured(operator_s=1e-6))
    newest = benchmark(cast, make_run, nodes, measured(operator_s=2e-6))
    benchmark(cast, make_run, nodes, measured(operator_s=3e-6), status=Status.FAILED)
    found = known_rates(cast.cluster, nodes)
    assert (found.run_id, found.rates.operator_s) == (newest.pk, 2e-6) and found.rates.is_measured
    assert found.at == Run.objects.get(pk=newest.pk).ended_at


def test_a_benchmark_of_the_same_nodes_counts_more_than_a_newer_one_of_others(cast: Cast, make_run: MakeRun) -> None:
    mine, other = [make_node(cast.cluster), make_node(cast.cluster)], [make_node(cast.cluster)]
    same = benchmark(cast, make_run, mine, measured())
    newer = benchmark(cast, make_run, other, measured())
    assert known_rates(cast.cluster, mine).run_id == same.pk
    assert known_rates(cast.cluster, [make_node(cast.cluster)]).run_id == newer.pk


def test_a_node_measured_alone_says_nothing_of_the_network(cast: Cast, make_run: MakeRun) -> None:
    usual = default_rates("cpu")
    alone = {**measured(), "links": {}}
    first, second = make_node(cast.cluster, inventory=CPU), make_node(cast.cluster, inventory=CPU)
    two = recipe(resources={"nodes": 2})
    benchmark(cast, make_run, [first], alone)
    found = estimate_for(two, cast.cluster, [first, second])
    assert known_rates(cast.cluster, [first, second]).rates.links == usual.links
    assert found.step_time.communication > 0, "which is assumed, and not free"
    whole = benchmark(cast, make_run, [first, second, make_node(cast.cluster, inventory=CPU)], measured())
    benchmark(cast, make_run, [first], alone)
    assert known_rates(cast.cluster, [first, second]).run_id == whole.pk, "though it is older"


def test_a_benchmark_of_cpus_says_nothing_of_gpus(cast: Cast, make_run: MakeRun) -> None:
    benchmark(cast, make_run, [make_node(cast.cluster)], measured())
    assert known_rates(cast.cluster, [make_node(cast.cluster, inventory=GPU)]).run_id == ""


@pytest.mark.parametrize("data", [{}, [1], {"version": 1}, {"version": 2, "matmul": "fast"}], ids=str)
def test_rates_that_cannot_be_read_are_left_out(cast: Cast, make_run: MakeRun, data: Any) -> None:
    nodes = [make_node(cast.cluster)]
    benchmark(cast, make_run, nodes, data)
    assert known_rates(cast.cluster, nodes).run_id == ""


def test_a_dataset_that_a_node_looked_at_says_its_rows_and_columns(cast: Cast) -> None:
    columns = [{"name": "size"}, {"name": "age"}, {"name": "price"}]
    facts = {"kind": "table", "num_rows": 90, "columns": columns, "classes": [], "num_classes": 0, "num_features": 2}
    dataset = Dataset.objects.create(
        project=cast.project, cluster=cast.cluster, name="prices", source="csv", location="/a.csv",
        options={"target": "price"}, facts=facts, state=Dataset.State.READY,
    )  # fmt: skip
    named = recipe(task={"recipe": "tabular", "data": {"dataset": "prices"}})
    found = data_facts(named)
    assert found is not None
    assert (found.num_rows, found.num_features, found.num_classes) == (90, 2, 0)
    Dataset.objects.filter(pk=dataset.pk).update(state=Dataset.State.WAITING)
    assert data_facts(named) is None and data_facts(recipe()) is None


def test_a_run_keeps_what_was_predicted_of_it_when_it_was_submitted(cast: Cast) -> None:
    make_node(cast.cluster, inventory=CPU)
    run = submit_run(actor=cast.mate, document=spec())
    run.refresh_from_db()
    assert run.estimate is not None
    assert run.estimate["memory"][0]["total"] > 0 and run.estimate["step_time"]["total"] > 0


def test_plans_for_the_same_nodes_come_with_what_they_would_change(cast: Cast) -> None:
    nodes = [make_node(cast.cluster, inventory=CPU), make_node(cast.cluster, inventory=CPU)]
    plans = costs(recipe(resources={"nodes": 2}), cast.cluster, nodes).proposals
    assert 1 <= len(plans) <= 3 and all(plan.sentence for plan in plans)
    assert estimate_for(recipe(resources={"nodes": 2}), cast.cluster, nodes).step_time.total > 0
    with pytest.raises(ValueError, match="the plan is for 2 nodes, and 1 were chosen"):
        estimate_for(recipe(resources={"nodes": 2}), cast.cluster, nodes[:1])


@pytest.mark.parametrize(
    "document",
    [
        {"name": "s", "task": {"script": "a.py"}},
        {"name": "b", "task": {"recipe": "communication-benchmark", "operations": ["compute"]}},
    ],
    ids=["script", "benchmark"],
)
def test_what_trains_nothing_that_the_planner_knows_has_no_estimate(cast: Cast, document: dict[str, Any]) -> None:
    assert frozen_estimate(parse_spec(document), cast.cluster, [make_node(cast.cluster)]) is None


def test_a_run_without_nodes_to_hold_it_goes_without(cast: Cast) -> None:
    assert frozen_estimate(recipe(), cast.cluster, []) is None
    assert submit_run(actor=cast.mate, document=spec()).estimate is None


def test_a_planner_that_breaks_keeps_no_run_from_being_submitted(
    cast: Cast, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> Estimate:
        raise ZeroDivisionError("of a kind that nobody thought of")

    monkeypatch.setattr(planning.planner, "estimate", broken)
    make_node(cast.cluster)
    assert submit_run(actor=cast.mate, document=spec()).estimate is None
    assert "no estimate could be made of hello-gpt" in caplog.text
