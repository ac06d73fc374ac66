"""What the plots over runs are fetched from: columns of fields and figures, and how much each field matters."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client

from runs.models import Project, Run, User
from tests.cast import Cast, spec
from tests.series import write_series

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
MakeRun = Callable[..., Run]


def planted(make_run: MakeRun, num: int = 12) -> list[Run]:
    """Runs whose loss is the place of their learning rate; every second one has another optimizer, which changes
    nothing, and the last one has no number."""
    runs = []
    for place in range(num):
        train = {"learning_rate": 10.0 ** (place / 4 - 4), "optimizer": ("adamw", "muon")[place % 2], "seed": place}
        runs.append(make_run(name=f"run {place}", spec=spec(train=train)))
        write_series(runs[-1], "val/loss", [9.0, float("nan") if place == num - 1 else float(place)])
        write_series(runs[-1], "val/accuracy", [place / num])
    return runs


def ask(client: Client, page: str, **query: Any) -> dict[str, Any]:
    answer = client.get(f"/runs/compare/{page}/?{urlencode(query, doseq=True)}")
    assert answer.status_code in (200, 202)
    found: dict[str, Any] = answer.json()
    return found


def test_columns_have_fields_as_ranges_or_choices_and_figures_that_are_asked_for(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    planted(make_run)
    secret = make_run(name="secret", project=Project.objects.create(name="other"))
    found = ask(as_user(cast.viewer), "plots", project="default", metric="val/loss", axis=["val/accuracy", "no.such"])
    by_path = {one["path"]: one for one in found["fields"]}
    rate, optimizer, accuracy = (by_path[path] for path in ("train.learning_rate", "train.optimizer", "val/accuracy"))
    assert rate["isLog"] and rate["isAxis"] and rate["low"] == pytest.approx(1e-4)
    assert optimizer["choices"] == ["adamw", "muon"] and not accuracy["isAxis"] and accuracy["high"] == 11 / 12
    assert found["objectives"][0]["direction"] == "minimize" and found["objectives"][0]["values"][0] is None
    assert len(found["run"]) == 12 and secret.pk not in found["run"] and "no.such" not in by_path
    assert list(by_path)[-2] == "train.seed", "seeds come last"


@pytest.mark.parametrize("query", [{"run": "nothing"}, {"filter": "no such ="}, {}])
def test_of_no_runs_there_are_no_columns(query: dict[str, str], cast: Cast, as_user: AsUser) -> None:
    found = ask(as_user(cast.viewer), "plots", **query)
    assert (found["total"], found["fields"], found["metrics"]) == (0, [], [])


def test_what_matters_is_said_with_its_error_and_over_how_many_runs(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    planted(make_run)
    client = as_user(cast.viewer)
    for _ in range(200):
        found = ask(client, "importance", project="default", metric="val/loss")
        if found["isCurrent"]:
            break
        time.sleep(0.1)
    assert found["fields"][0]["label"] in ("learning_rate", "seed") and found["fields"][0]["fanova_error"] > 0
    assert found["sentence"] == "From the 11 runs that reported a value. Below 20, chance decides much of this."
    few = ask(client, "importance", project="default", metric="val/loss", without=[one.pk for one in Run.objects.all()])
    assert "at least 4 runs with a value; there are 0" in few["sentence"]
