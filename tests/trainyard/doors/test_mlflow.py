"""`trainyard import mlflow` against a real server, with stores that MLflow's own client filled."""

from __future__ import annotations

import gc
import json
import math
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.entities import Metric
from mlflow.tracking import MlflowClient
from mlflow.utils import request_utils

from runs.models import Run
from tests.points import stored_values
from tests.trainyard.command import Trainyard
from trainyard.cli.parser import build_parser

DOCS = Path(__file__).parents[3] / "docs"
pytestmark = [pytest.mark.usefixtures("valkey"), pytest.mark.filterwarnings("ignore")]


@pytest.fixture(params=["folder", "database"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)
    yield str(tmp_path / "mlruns") if request.param == "folder" else f"sqlite:///{tmp_path}/mlflow.db"
    mlflow.set_tracking_uri("")


@pytest.fixture(autouse=True)
def no_connection_of_the_client_is_left() -> Iterator[None]:
    yield
    request_utils._cached_get_request_session.cache_clear()
    gc.collect()


def filled(store: str) -> MlflowClient:
    """A run that succeeds, one that is killed, one that goes on, and one that was deleted."""
    mlflow.set_tracking_uri(store)
    client = MlflowClient()
    experiment = client.create_experiment("digits")
    for name in ("done", "killed", "open", "gone"):
        run = client.create_run(
            experiment, run_name=name, tags={"phase": "try", "mlflow.note.content": "why"}
        ).info.run_id
        for step in range(30):
            client.log_metric(run, "train/loss", 1 / (step + 1), timestamp=1_700_000_000_000 + 10 * step, step=step)
        client.log_batch(run, [Metric("odd", value, 1_700_000_000_500, step)
                               for step, value in enumerate((math.nan, math.inf, -math.inf))])  # fmt: skip
        for key, value in {"lr": 0.5, "model.width": 64, "kind": "wide"}.items():
            client.log_param(run, key, value)
        if name != "open":
            client.set_terminated(run, "KILLED" if name == "killed" else "FINISHED")
        if name == "gone":
            client.delete_run(run)
    return client


def imported(trainyard: Trainyard, store: str) -> dict[str, dict[str, Any]]:
    ended = trainyard("import", "mlflow", store, "--json")
    assert ended.code == 0, ended.err
    return {item["run"]["name"]: item for item in json.loads(ended.out.splitlines()[-1])["items"]}


def test_runs_come_with_all_that_they_have(store: str, trainyard: Trainyard) -> None:
    filled(store)
    items = imported(trainyard, store)
    assert {name: (item["run"]["status"], item["points"]) for name, item in items.items()} == {
        "done": ("SUCCEEDED", 33), "killed": ("CANCELLED", 33), "open": ("LOST", 33),
    }  # fmt: skip
    run = Run.objects.get(pk=items["done"]["run"]["id"])
    assert run.config == {"lr": 0.5, "model": {"width": 64}, "kind": "wide"}
    assert (run.notes, run.tags, run.spec["local"]["group"]) == ("why", ["phase=try"], "digits")
    found = stored_values(run.pk)
    assert [(step, value) for step, _, value in found["train/loss"]] == [(n, 1 / (n + 1)) for n in range(30)]
    assert [str(value) for _, _, value in sorted(found["odd"])] == ["nan", "inf", "-inf"]


def test_a_second_import_doubles_nothing_and_adds_what_came_since(store: str, trainyard: Trainyard) -> None:
    client = filled(store)
    first = imported(trainyard, store)["open"]["run"]["id"]
    again = imported(trainyard, store)
    assert again["open"]["run"]["id"] == first and {item["points"] for item in again.values()} == {0}
    source = next(
        one for one in client.search_runs(client.search_experiments()[0].experiment_id) if one.info.run_name == "open"
    )
    client.log_metric(source.info.run_id, "train/loss", 9.0, step=30)
    client.set_terminated(source.info.run_id, "FAILED")
    last = imported(trainyard, store)["open"]
    assert (last["run"]["id"], last["run"]["status"], last["points"]) == (first, "FAILED", 1)
    assert len(stored_values(first)["train/loss"]) == 31


def test_a_server_gives_the_same_runs_as_its_store(
    trainyard: Trainyard, live_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is Trainyard's own, which speaks as MLflow's does."""
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", os.environ["TRAINYARD_TOKEN"])
    monkeypatch.setattr("trainyard.doors.mlflow.PAGE", 1)
    url = f"{live_server.url}/mlflow"
    mlflow.set_tracking_uri(url)
    client = MlflowClient()
    for name in ("one", "two"):
        run = client.create_run("0", run_name=name).info.run_id
        client.log_batch(run, [Metric("loss", n / 4, 5_000 + n, n) for n in range(3)] + [Metric("odd", math.inf, 1, 0)])
        client.log_param(run, "lr", 0.5)
        client.set_terminated(run)
    sources = set(Run.objects.values_list("pk", flat=True))
    items = imported(trainyard, url)
    assert {name: item["points"] for name, item in items.items()} == {"one": 4, "two": 4}
    copy = Run.objects.get(pk=items["two"]["run"]["id"])
    assert copy.pk not in sources and copy.config == {"lr": 0.5} and copy.status == "SUCCEEDED"
    assert stored_values(copy.pk) == {
        "loss": [(n, 5 + n / 1000, n / 4) for n in range(3)],
        "odd": [(0, 0.001, math.inf)],
    }


def test_what_is_no_store_is_said(trainyard: Trainyard, tmp_path: Path) -> None:
    (tmp_path / "other.db").write_text("nothing of the kind")
    for store in (str(tmp_path / "nowhere"), str(tmp_path / "other.db"), "http://127.0.0.1:9"):
        ended = trainyard("import", "mlflow", store)
        assert ended.code != 0 and store in ended.err
    assert trainyard("import", "mlflow", str(tmp_path)).code == 1


def test_the_command_of_the_page_is_one() -> None:
    commands = re.findall(r"^trainyard import .*$", (DOCS / "coming_from_mlflow.md").read_text(), re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        build_parser().parse_args(shlex.split(command)[1:])
