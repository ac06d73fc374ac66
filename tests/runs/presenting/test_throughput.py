"""How fast a run trains: one number, wherever it is said."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from runs.models import Run
from runs.presenting.measured import Throughput, throughputs
from runs.presenting.runs import run_documents
from runs.records.points import read
from runs.values.status import Status
from tests.cast import Cast, spec
from tests.dashboard.pages.run.test_plan import measured, tell
from tests.dashboard.pages.shared.test_estimate import estimate
from tests.runs.api.conftest import Api
from tests.series import write_series
from trainyard.cli import reading
from trainyard.cli.screen import Screen
from trainyard.spec import parse_spec

pytestmark = pytest.mark.django_db(databases="__all__")
MakeRun = Callable[..., Run]
# Two slow steps at first, a checkpoint in the middle, validation behind the last one.
RATES = [900.0, 3_000.0, *[7_100.0, 7_150.0, 7_200.0] * 5, 2_000.0, *[7_100.0, 7_150.0, 7_200.0] * 2, 1_350.0]
MFUS = [value / 20_000 for value in RATES]


@pytest.fixture
def ended(make_run: MakeRun) -> Run:
    plan = estimate().as_document()
    run = make_run(spec=parse_spec(spec()).resolved(), status=Status.SUCCEEDED, estimate=plan)
    write_series(run, "train/tokens_per_second", RATES)
    write_series(run, "train/mfu", MFUS)
    write_series(run, "train/loss", [5.0 - 0.1 * step for step in range(len(RATES))])
    tell(run, "measured", measured())
    return run


def test_it_is_the_median_of_the_steady_part(ended: Run) -> None:
    assert throughputs([ended.pk]) == {ended.pk: Throughput(7_150.0, "tok/s", pytest.approx(0.3575))}
    assert read.summaries([ended.pk])[ended.pk]["train/tokens_per_second"]["last"] == 1_350.0


def test_every_page_says_the_same(ended: Run, cast: Cast) -> None:
    client = Client()
    client.force_login(cast.mate)
    for path in ("/runs/", f"/runs/{ended.pk}/", f"/runs/{ended.pk}/plan/"):
        text = client.get(path).content.decode()
        assert "7.15k" in text and "1.35k" not in text, path
    for path in (f"/runs/{ended.pk}/", f"/runs/{ended.pk}/plan/"):
        text = " ".join(client.get(path).content.decode().split())
        assert "MFU <b>36 %</b>" in text and text.count("36 %") == (2 if path.endswith("plan/") else 1), path
    compare = f"/runs/compare/?run={ended.pk}&metric=train/tokens_per_second"
    assert "7.15k" in client.get(compare).content.decode()
    assert "1.35k" in client.get(f"{compare}&statistic=last").content.decode(), "who asks for the last gets the last"


def test_a_live_run_on_the_home_page_says_the_same(ended: Run, cast: Cast) -> None:
    Run.objects.filter(pk=ended.pk).update(status=Status.RUNNING, ended_at=None)
    client = Client()
    client.force_login(cast.mate)
    text = client.get("/").content.decode()
    assert "7.15k tok/s" in text and "1.35k" not in text


def test_rest_and_the_terminal_say_the_same(ended: Run, cast: Cast, capsys: pytest.CaptureFixture[str]) -> None:
    mate = Api(cast.mate)
    run = mate("GET", f"/runs/{ended.pk}").json()
    assert run["throughput"] == {"value": 7_150.0, "unit": "tok/s", "mfu": pytest.approx(0.3575)}
    assert mate("GET", "/runs").json()["items"][0]["throughput"] == run["throughput"]
    plan = mate("GET", f"/runs/{ended.pk}/plan").json()
    assert plan["measured"]["units_per_second"] == 7_150.0 and plan["measured"]["mfu"] == pytest.approx(0.3575)
    assert "speed      7150 tok/s, MFU 35.8%" in shown(run, capsys)


def test_a_run_that_logs_neither_says_nothing(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(status=Status.SUCCEEDED)
    write_series(run, "loss", [1.0])
    [document] = run_documents([run])
    assert document["throughput"] == {"value": None, "unit": "", "mfu": None}
    assert "speed" not in shown(json.loads(json.dumps(document)), capsys)


def test_samples_count_where_there_are_no_tokens(make_run: MakeRun) -> None:
    run = make_run(status=Status.SUCCEEDED)
    write_series(run, "train/samples_per_second", [10.0, 50.0, 51.0, 52.0])
    assert throughputs([run.pk])[run.pk] == Throughput(51.0, "samples/s", None)


def test_the_newest_attempt_counts_and_its_first_steps_do_not(make_run: MakeRun) -> None:
    run = make_run()
    write_series(run, "train/tokens_per_second", [100.0] * 40)
    write_series(run, "train/tokens_per_second", [1.0, 200.0, 200.0, 210.0], attempt=2, first=30)
    assert read.steady_medians([run.pk], ["train/tokens_per_second"])[run.pk] == {"train/tokens_per_second": 200.0}


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([7.0], 7.0),
        ([1.0, 7.0], 7.0),
        ([1.0, 6.0, 8.0], 7.0),
        ([1.0, math.nan, 7.0, math.inf, 7.0], 7.0),
        ([1.0] * 100 + [7.0] * 900 + [3.0] * 20, 7.0),
        ([math.nan], None),
    ],
    ids=["one", "two", "even", "not finite", "more than are read one by one", "none"],
)
def test_the_steady_part(make_run: MakeRun, values: list[float], found: float | None) -> None:
    run = make_run()
    write_series(run, "a", values)
    assert read.steady_medians([run.pk, "nothing"], ["a", "b"]) == ({run.pk: {"a": found}} if found else {})


def test_the_series_without_labels_counts_before_those_of_ranks(make_run: MakeRun) -> None:
    run = make_run()
    write_series(run, "a", [5.0, 5.0])
    write_series(run, "a", [1.0, 1.0], labels={"rank": "0"})
    assert read.steady_medians([run.pk], ["a"]) == {run.pk: {"a": 5.0}}


def shown(run: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> str:
    """What `trainyard show` prints."""

    class Known:
        def run(self, _: str) -> dict[str, Any]:
            return run

        def attempts(self, _: str) -> list[dict[str, Any]]:
            return []

    arguments = type("Arguments", (), {"id": run["id"], "json": False})
    reading.show(Known(), arguments, Screen())  # type: ignore[arg-type]
    return capsys.readouterr().out
