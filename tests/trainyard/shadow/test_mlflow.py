"""What a script gives to MLflow's client, beside what MLflow's own store holds."""

from __future__ import annotations

import json
import os
from pathlib import Path

import mlflow
import pytest

from tests.trainyard.command import Trainyard
from tests.trainyard.shadow.shadowed import RANDOM, exact, shadowed

CALLS = (
    RANDOM
    + """
import mlflow
from mlflow.entities import Metric

client = mlflow.MlflowClient()
with mlflow.start_run(run_name="first") as run:
    sent = 0
    while sent < calls:
        step, row = chance.randrange(-5, 1000), {name: number() for name in names()}
        how = chance.random()
        if how < 0.4:
            name, value = row.popitem()
            mlflow.log_metric(name, value, step=chance.choice([None, step]))
            sent += 1
        elif how < 0.8:
            mlflow.log_metrics(row, step=step)
            sent += len(row)
        else:
            many = [Metric(name, number(), 1_700_000_000_000 + n, n) for n in range(40) for name in row]
            client.log_batch(run.info.run_id, many)
            sent += len(many)
"""
)

SCRIPT = """
import mlflow

mlflow.set_tracking_uri("file:./kept")
with mlflow.start_run(run_name="parent", tags={"phase": "try"}):
    mlflow.log_params({"lr": 0.1})
    mlflow.log_metric("loss", 1.5, step=2)
    with mlflow.start_run(run_name="child", nested=True):
        mlflow.log_metric("loss", 2.5, step=2)
        mlflow.log_param("lr", 3)
    mlflow.log_text("hello", "note.txt")
"""

WITH_A_MODEL = """
import mlflow
from mlflow.entities import Metric

client = mlflow.MlflowClient()
with mlflow.start_run() as run:
    for value in (0.5, 0.25):
        mlflow.log_metric("score", value)
    history = client.get_metric_history(run.info.run_id, "score")
    client.log_batch(
        run.info.run_id, [Metric(one.key, one.value, one.timestamp, one.step, model_id="m-1") for one in history]
    )
    client.log_batch(run.info.run_id, [Metric("score", 0.125, 1_700_000_000_000, 3, model_id="m-1")])
"""


def kept_by_mlflow(folder: Path) -> dict[str, list[tuple[int, str]]]:
    client = mlflow.MlflowClient((folder / "mlruns").as_uri())
    [run] = client.search_runs(["0"])
    histories = {name: client.get_metric_history(run.info.run_id, name) for name in run.data.metrics}
    return {name: sorted((one.step, one.value.hex()) for one in history) for name, history in histories.items()}


def test_two_thousand_random_metrics_are_to_the_bit_what_mlflows_store_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    done = shadowed(tmp_path, CALLS, "20261126", "2000", MLFLOW_TRACKING_URI=(tmp_path / "mlruns").as_uri())
    assert done.code == 0, done.err
    assert exact(done.points()) == kept_by_mlflow(tmp_path)
    assert sum(map(len, done.points().values())) >= 2_000
    assert done.reason == "finish" and done.payloads("begin")[0]["name"] == "first"


def test_a_nested_run_has_a_label_and_what_is_not_mirrored_is_said_once(tmp_path: Path) -> None:
    done = shadowed(tmp_path, SCRIPT)
    assert done.code == 0, done.err
    assert done.points() == {("loss", ()): [(2, 1.5)], ("loss", (("run", "child"),)): [(2, 2.5)]}
    last = done.payloads("description")[-1]
    assert last["config"] == {"lr": "0.1", "child": {"lr": "3"}} and last["tags"] == ["phase=try"]
    assert done.err.count("log_text is not mirrored") == 1


def test_a_point_that_is_logged_again_with_a_model_comes_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    done = shadowed(tmp_path, WITH_A_MODEL, MLFLOW_TRACKING_URI=(tmp_path / "mlruns").as_uri())
    assert done.code == 0, done.err
    assert done.points()["score", ()] == [(0, 0.5), (0, 0.25), (3, 0.125)]


def test_only_leaves_mlflow_no_store_whatever_the_script_names(tmp_path: Path) -> None:
    done = shadowed(tmp_path, SCRIPT, options=("--only",), TMPDIR=str(tmp_path))
    assert done.code == 0, done.err
    assert done.points()["loss", ()] == [(2, 1.5)]
    assert not (tmp_path / "kept").exists() and not list(tmp_path.glob("trainyard-mlflow-*"))


@pytest.mark.usefixtures("valkey")
def test_a_client_of_trainyards_own_mlflow_is_not_mirrored_a_second_time(tmp_path: Path, trainyard: Trainyard) -> None:
    url, token = os.environ["TRAINYARD_URL"], os.environ["TRAINYARD_TOKEN"]
    script = "import mlflow\nwith mlflow.start_run(run_name='first'):\n    mlflow.log_metric('loss', 1.5)\n"
    done = shadowed(tmp_path, script, TRAINYARD_URL=url, TRAINYARD_TOKEN=token,
                    MLFLOW_TRACKING_URI=f"{url}/mlflow", MLFLOW_TRACKING_TOKEN=token)  # fmt: skip
    assert (done.code, done.spools) == (0, []), done.err
    assert "MLflow sends to Trainyard by itself" in done.err
    assert [one["name"] for one in json.loads(trainyard("runs", "--json").out)["items"]] == ["first"]
