"""What was predicted beside what was measured, and what a benchmark found."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from dashboard.pages.run.plan import PlanTab, Row, plan_tab
from runs.models import Run, RunTime, User
from runs.records.metrics.models import Fact
from runs.records.time_use.split import NAMES
from runs.values.status import Status
from tests.cast import Cast, make_attempt, make_node, spec
from tests.dashboard.pages.shared.test_estimate import MIB, estimate
from trainyard.planner import default_rates
from trainyard.planner.results import StepTime
from trainyard.spec import parse_spec

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
MakeRun = Callable[..., Run]
BENCHMARK = {"name": "links", "task": {"recipe": "communication-benchmark"}, "resources": {"nodes": 2}}


def tell(run: Run, name: str, data: Any, rank: int = 0) -> None:
    Fact.objects.create(run_id=run.pk, attempt=1, name=name, rank=rank, data=data, at=1.0)


def measured(**changes: Any) -> dict[str, Any]:
    phases = {"data": 0.01, "forward": 0.2, "backward": 0.4, "communication": 0.3, "optimizer": 0.2, "checkpoint": 0.0}
    return {
        "step": 300,
        "num_steps": 50,
        "step_time_s": 1.1,
        "phases": phases,
        "peak_memory_bytes": 310 * MIB,
        "sent_bytes": 2.5 * MIB,
        "flops_per_step": 8.7e9,
        "mfu": 0.4,
        **changes,
    }


def trained(make_run: MakeRun, *ranks: dict[str, Any], **changes: Any) -> Run:
    run = make_run(
        spec=parse_spec(spec()).resolved(), status=Status.SUCCEEDED, estimate=estimate(**changes).as_document()
    )
    for rank, data in enumerate(ranks):
        tell(run, "measured", data, rank)
    return run


def rows_of(tab: PlanTab) -> dict[str, Row]:
    return {row.label: row for row in (*tab.time, *tab.rates, *tab.memory)}


def test_predicted_and_measured_stand_side_by_side(make_run: MakeRun) -> None:
    rows = rows_of(plan_tab(trained(make_run, measured(), measured(peak_memory_bytes=310 * MIB))))
    assert rows["A whole step"][2:6] == ("1.00 s", "1.10 s", "+10 %", "green")
    assert rows["A whole step"].range == "750 ms to 1.25 s"
    assert rows["Compute"][2:6] == ("600 ms", "600 ms", "0 %", "green")
    assert rows["Throughput"][2:5] == ("4.10k tok/s", "3.72k tok/s", "−9 %")
    assert rows["Model FLOPs in a step"].measured == "17.4 GFLOP", "of both ranks"
    assert rows["Ranks 0 and 1"][2:5] == ("300 MiB", "310 MiB", "+3 %")
    assert rows["MFU"].measured == "40 %" and rows["Data"].predicted == "–"


def test_a_large_difference_gets_a_word(make_run: MakeRun) -> None:
    row = rows_of(plan_tab(trained(make_run, measured(), measured())))["Optimizer"]
    assert (row.difference, row.tone) == ("+100 %", "amber")
    assert "assumed speeds" in row.why
    known = rows_of(plan_tab(trained(make_run, measured(), is_measured=True)))["Optimizer"]
    assert "Something else ran" in known.why


@pytest.mark.parametrize(("took", "difference", "tone"), [(0.025, "+150 %", ""), (0.05, "5 times", "amber")])
def test_a_part_that_is_off_by_little_of_a_step_gets_none(
    make_run: MakeRun, took: float, difference: str, tone: str
) -> None:
    found = measured(phases={"forward": 0.2, "backward": 0.4, "optimizer": took})
    row = rows_of(plan_tab(trained(make_run, found, found, step_time=StepTime(0.6, 0.39, 0.0, 0.01))))["Optimizer"]
    assert (row.difference, row.tone, bool(row.why)) == (difference, tone, tone == "amber")


def test_a_reason_that_rows_share_is_said_once_and_many_times_is_a_factor(make_run: MakeRun) -> None:
    slow = measured(step_time_s=4.0, phases={"forward": 1.0, "backward": 1.4, "optimizer": 0.2})
    rows = rows_of(plan_tab(trained(make_run, slow, slow)))
    assert (rows["A whole step"].difference, rows["Compute"].difference) == ("4 times", "4 times")
    assert rows["A whole step"].why and not rows["Compute"].why and not rows["Optimizer"].why


def test_ranks_that_differ_have_a_row_each_and_the_slowest_says_the_step(make_run: MakeRun) -> None:
    tab = plan_tab(trained(make_run, measured(), measured(peak_memory_bytes=900 * MIB, step_time_s=2.0)))
    rows = rows_of(tab)
    assert rows["A whole step"].measured == "2 s"
    assert rows["Rank 0"].tone == "green" and rows["Rank 1"].why.startswith("Something holds memory")


def test_a_run_that_nobody_measured_yet_shows_its_prediction_alone(make_run: MakeRun) -> None:
    tab = plan_tab(trained(make_run))
    assert tab.num_steps is None and rows_of(tab)["A whole step"][2:5] == ("1.00 s", "–", "")


@pytest.mark.parametrize(("total_s", "tone"), [(1.24, "green"), (1.26, "amber"), (0.76, "green"), (0.74, "amber")])
def test_what_was_measured_is_near_inside_of_the_range(make_run: MakeRun, total_s: float, tone: str) -> None:
    found = measured(step_time_s=total_s)
    assert rows_of(plan_tab(trained(make_run, found, found)))["A whole step"].tone == tone


def test_a_run_without_a_prediction_shows_what_was_measured(make_run: MakeRun) -> None:
    run = make_run(spec=parse_spec(spec()).resolved())
    assert not plan_tab(run).has_prediction and plan_tab(run).num_steps is None
    tell(run, "measured", measured())
    assert rows_of(plan_tab(run))["A whole step"][2:5] == ("–", "1.10 s", "")


@pytest.mark.parametrize("data", [{}, {"phases": 3, "step_time_s": "soon", "peak_memory_bytes": None}], ids=str)
def test_what_a_rank_told_wrongly_is_a_dash(make_run: MakeRun, data: dict[str, Any]) -> None:
    rows = rows_of(plan_tab(trained(make_run, data)))
    assert rows["A whole step"].measured == "–" and rows["Compute"].measured == "–"


def test_the_tab_shows_both(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run = trained(make_run, measured(), measured(), warnings=("Tight: <b>.",))
    text = as_user(cast.viewer).get(f"/runs/{run.pk}/plan/").content.decode()
    assert "with assumed speeds" in text and "Measured over the last 50 steps" in text
    assert "Tight: &lt;b&gt;." in text and 'plan-off is-amber">+100 %' in text


def test_a_script_has_no_such_tab_and_a_benchmark_has_results(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    script = make_run(spec=parse_spec({"name": "s", "task": {"script": "a.py"}}).resolved())
    links = make_run(spec=parse_spec(BENCHMARK).resolved())
    client = as_user(cast.viewer)
    assert "/plan/" not in client.get(f"/runs/{script.pk}/").content.decode()
    text = client.get(f"/runs/{links.pk}/plan/").content.decode()
    assert "Results" in text and "The results come when the benchmark has ended" in text


def test_a_benchmark_shows_operations_by_size_and_pairs_of_nodes(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    run = make_run(spec=parse_spec(BENCHMARK).resolved(), status=Status.SUCCEEDED)
    fast, slow = {"latency_s": 2e-5, "bytes_per_s": 2.0**30}, {"latency_s": 4e-5, "bytes_per_s": 2.0**28}
    pairs = [{"from": "a", "to": "b", **slow}, {"from": "a", "to": "c", **fast}, {"from": "b", "to": "c", **fast}]
    operations = {"all-reduce": [[1024, 3e-5, 2.0**25], [4096, 4e-5, 2.0**27]], "ring": [[4096, 0.5, 2.0**20]]}
    found = {"world_size": 3, "nodes": ["a", "b", "c"], "operations": operations, "num_links": 3, "links": pairs}
    tell(run, "communication", found)
    tell(run, "rates", {**default_rates("cpu").as_document(), "memory_bytes_per_s": 2.0**33})
    text = as_user(cast.viewer).get(f"/runs/{run.pk}/plan/").content.decode()
    assert text.index(">1.0 KiB<") < text.index(">4.0 KiB<")
    assert '<td class="num nowrap shade-5"><b>128 MiB/s</b><br><span class="xs muted">40 µs</span></td>' in text
    assert "500 ms" in text and "a and b have the slowest link: 256 MiB/s, 4.0 times less than the middle one." in text
    assert text.count("<b>256 MiB/s</b>") == 2, "in both directions"
    assert "8.0 GiB/s read and written" in text


@pytest.mark.parametrize(
    ("power", "words"),
    [
        (-0.08, "No activation grows with the width: the rate found at width 64 holds at 256."),
        (1.19, "Grows with the width: logits. The rate found at width 64 may be too high at 256."),
    ],
)
def test_a_run_whose_rate_was_found_at_another_width_shows_the_coordinate_check(
    cast: Cast, as_user: AsUser, make_run: MakeRun, power: float, words: str
) -> None:
    task = {"recipe": "language-model", "model": {"width": 256, "base_width": 64}}
    run = make_run(spec=parse_spec({"name": "wide", "task": task}).resolved())
    client = as_user(cast.viewer)
    assert "Width transfer" not in client.get(f"/runs/{run.pk}/plan/").content.decode()
    found = {"base_width": 64, "optimizer": "adamw", "steps": 4, "widths": [64, 128, 256]}
    changes = {"logits": [0.5, 0.4292, 0.4222], "mlp up": [0.2742, 0.2485, 0.2444]}
    tell(run, "coordinates", {**found, "changes": changes, "powers": {"logits": power, "mlp up": -0.04}})
    text = client.get(f"/runs/{run.pk}/plan/").content.decode()
    assert words in text and "width 128" in text and '<td class="num">0.429</td>' in text and "−0.04" in text


def test_advice_after_a_run_fills_the_form_with_the_change(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    ended = timezone.now()
    document = spec(name="wasteful", train={"steps": 500, "batch_size": 32}, checkpoint={"every_steps": 2})
    run = make_run(spec=document, status=Status.SUCCEEDED, ended_at=ended)
    make_attempt(run, [make_node(cast.cluster)], ended_at=ended)
    times = dict.fromkeys(NAMES, 0.0) | {"productive_s": 70.0, "checkpoint_s": 30.0}
    RunTime.objects.create(run=run, ended_at=ended, **times)
    client = as_user(cast.mate)
    answer = client.get(f"/runs/{run.pk}/plan/")
    [(one, url)] = answer.context["advice"]
    assert one.change == "Save one after each 60 steps" and "29 %" in answer.content.decode()
    form = client.get(url).content.decode()
    assert re.search(r'name="checkpoint.every_steps"[^>]*value="60"', form)
    assert client.get(f"/launch/?from=change:{run.pk}@nothing").status_code == 404
    assert as_user(cast.outsider).get(url).status_code == 404
