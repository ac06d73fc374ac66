"""The sheet of the EU AI Act has what a run measured, and says of the rest that nobody measured it."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from runs.models import Run, RunTime
from runs.presenting.annex import AnnexFigure, annex_of
from runs.records.time_use.split import TimeUse
from runs.values.status import Phase, Status
from tests.cast import Cast, make_attempt, make_node, make_run, spec
from tests.dashboard.pages.run.test_plan import measured, tell
from tests.dashboard.pages.shared.test_estimate import estimate
from tests.datasets import TABLE, make_dataset
from tests.runs.api.conftest import Api
from tests.series import write_series
from trainyard.spec import parse_spec

pytestmark = pytest.mark.django_db(databases="__all__")
POWER = "system/gpu_power_w"


def figures(run: Run) -> dict[str, AnnexFigure]:
    return {one.name: one for one in annex_of(run, timezone.now())}


def ended_run(cast: Cast, document: dict[str, Any] | None = None, **changes: Any) -> Run:
    document = document or parse_spec(spec()).resolved()
    return make_run(cast, spec=document, status=Status.SUCCEEDED, **changes)


def test_each_figure_is_what_the_run_measured(cast: Cast) -> None:
    run = ended_run(cast, estimate=estimate().as_document())
    gpu = {"index": 0, "name": "NVIDIA H100"}
    attempt = make_attempt(run, [make_node(cast.cluster, inventory={"gpus": [gpu]})], ranks=2, phase=Phase.RUNNING)
    attempt.ended_at = attempt.go_at + timedelta(hours=1)
    attempt.save()
    tell(run, "measured", measured())
    write_series(run, POWER, [300.0, 500.0] * 1800, labels={"gpu": "0"})
    write_series(run, "train/loss", [1.0] * 300)
    times = TimeUse(queued_s=9, productive_s=100, recomputed_s=50, checkpoint_s=10)
    RunTime.objects.create(run=run, ended_at=run.ended_at, **times.by_name())
    found = figures(run)
    assert {one.basis for name, one in found.items() if name in ("Operations", "Energy")} == {"measured"}
    assert found["Operations"].value == pytest.approx(8.7e9 * 300 * 1.5)
    assert found["Energy"].value == pytest.approx(0.4, rel=0.001)  # 400 W for an hour
    assert found["Training time"].value == 160
    assert found["Time of all ranks"].value == 7200
    assert found["Hardware"].value == "1 × 2 ranks on NVIDIA H100"
    assert found["Parameters"][2:5] == (run.estimate["num_parameters"], "", "computed from the spec")


def test_what_was_not_measured_says_so(cast: Cast) -> None:
    found = figures(make_run(cast, spec=spec(task={"script": "train.py"})))
    assert {one.basis for one in found.values()} == {"not measured"}
    assert {one.value for one in found.values()} == {None}


def test_energy_without_a_meter_is_called_an_estimate(cast: Cast) -> None:
    run = ended_run(cast)
    attempt = make_attempt(run, [make_node(cast.cluster)], ranks=2, phase=Phase.RUNNING)
    attempt.ended_at = attempt.go_at + timedelta(hours=1)
    attempt.save()
    found = figures(run)["Energy"]
    assert (found.value, found.basis) == (pytest.approx(0.02), "estimated")
    assert found.note == "no meter was there: 10 W are assumed of each rank"


def test_power_that_is_no_number_does_not_count(cast: Cast) -> None:
    run = ended_run(cast)
    write_series(run, POWER, [400.0, math.nan, math.inf] * 200)
    assert figures(run)["Energy"].value == pytest.approx(0.4 / 6, rel=0.01)
    write_series(other := ended_run(cast), POWER, [math.inf] * 5_000)
    assert figures(other)["Energy"].basis == "not measured"


def test_a_run_that_goes_on_from_another_counts_its_own_steps(cast: Cast) -> None:
    run, other = ended_run(cast), ended_run(cast)
    attempt = make_attempt(run, [make_node(cast.cluster)], phase=Phase.RUNNING)
    attempt.go |= {"checkpoints": [{"run": other.pk, "step": 200, "fence": 1}]}
    attempt.save()
    tell(run, "measured", measured())
    write_series(run, "train/loss", [1.0] * 100, first=201)
    assert figures(run)["Operations"].value == pytest.approx(8.7e9 * 100)


def test_the_data_set_is_named_with_what_a_node_found(cast: Cast) -> None:
    make_dataset(cast, facts=TABLE, size_bytes=2048, digest="ab" * 32)
    task = {"recipe": "tabular", "data": {"source": "csv", "dataset": "trees"}}
    found = figures(make_run(cast, spec=spec(task=task)))
    assert [one.value for name, one in found.items() if one.point == "2(c)"] == ["trees", "ab" * 32, 4, 2048]


def test_what_opens_a_location_stays_at_home(cast: Cast) -> None:
    data = {"source": "csv", "location": "s3://key:secret@bucket/x.csv?token=secret"}
    found = figures(make_run(cast, spec=spec(task={"recipe": "tabular", "data": data})))
    assert found["Data set"].value == "csv s3://bucket/x.csv"


def test_rest_and_the_file_say_the_same_as_far_as_one_sees_the_run(cast: Cast, client: Client) -> None:
    data = {"source": "csv", "location": "/data/<b>x</b>.csv"}
    run = make_run(cast, spec=spec(task={"recipe": "tabular", "data": data}))
    found = Api(cast.viewer)("GET", f"/runs/{run.pk}/annex-xi").json()
    assert [one["name"] for one in found] == list(figures(run))
    client.force_login(cast.viewer)
    file = client.get(f"/share/export/?object=run/{run.pk}&sheet=annex-xi")
    assert file["Content-Disposition"] == 'attachment; filename="hello-gpt-annex-xi.html"'
    page = file.content.decode()
    assert all(one["name"] in page for one in found) and "not measured" in page
    assert "&lt;b&gt;x&lt;/b&gt;" in page and "<b>x</b>" not in page
    client.force_login(cast.outsider)
    assert client.get(f"/share/export/?object=run/{run.pk}&sheet=annex-xi").status_code == 404
