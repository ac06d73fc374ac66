"""The real client of MLflow, unchanged, against ``/mlflow``."""

from __future__ import annotations

import gc
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pytest
import requests
from mlflow.entities import (
    Dataset,
    DatasetInput,
    InputTag,
    LoggedModelInput,
    LoggedModelOutput,
    LoggedModelStatus,
    Metric,
    Param,
    RunTag,
    ViewType,
)
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from mlflow.utils import request_utils

from runs import actions
from runs.actions.mlflow import keep_fact
from runs.models import Run
from runs.records.files import outputs
from runs.records.points.read import curves
from tests.cast import Cast
from tests.points import stored_points

DOCS = Path(__file__).parents[4] / "docs"
pytestmark = [pytest.mark.usefixtures("valkey"), pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def tracking(
    transactional_db: None, cast: Cast, live_server: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MlflowClient]:
    """The client as the team mate's token makes it."""
    _, secret = actions.create_token(actor=cast.mate, name="mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", secret)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    mlflow.set_tracking_uri(f"{live_server.url}/mlflow")
    yield MlflowClient()
    while mlflow.active_run():
        mlflow.end_run()
    request_utils._cached_get_request_session.cache_clear()
    gc.collect()  # no connection of the client is left to another test


def test_the_common_script_leaves_a_run_with_all_that_it_logged(tracking: MlflowClient, tmp_path: Path) -> None:
    experiment = mlflow.set_experiment("default")
    with mlflow.start_run(run_name="first", tags={"phase": "try"}, description="a note") as active:
        mlflow.log_params({"lr": 0.01, "model.width": 64, "name": "adam", "rate": "1e-3"})
        for step in range(3):
            mlflow.log_metric("train/loss", 1.0 / (step + 1), step=step)
        mlflow.log_metrics({"odd": math.nan, "high": math.inf})
        mlflow.log_text("hello", "notes/hello.txt")
        (tmp_path / "plain.bin").write_bytes(b"\0\1\2")
        mlflow.log_artifact(str(tmp_path / "plain.bin"))
    run = Run.objects.get(name="first")
    assert (run.pk, run.project_id) == (active.info.run_id, experiment.experiment_id)
    assert (run.status, run.config) == (
        "SUCCEEDED", {"lr": 0.01, "model": {"width": 64}, "name": "adam", "rate": "1e-3"},
    )  # fmt: skip
    assert run.notes == "a note" and run.tags == ["phase=try"]
    assert {one["path"] for one in outputs.listing(run.pk)} == {"notes/hello.txt", "plain.bin"}
    found = tracking.get_run(run.pk)
    assert found.info.status == "FINISHED" and found.info.end_time >= found.info.start_time
    assert found.data.params == {"lr": "0.01", "model.width": "64", "name": "adam", "rate": "1e-3"}
    assert found.data.metrics["train/loss"] == 1 / 3 and math.isnan(found.data.metrics["odd"])
    assert found.data.metrics["high"] == math.inf
    assert found.data.tags["phase"] == "try" and found.data.tags["mlflow.runName"] == "first"
    history = tracking.get_metric_history(run.pk, "train/loss")
    assert [(one.step, one.value) for one in history] == [(0, 1.0), (1, 0.5), (2, 1 / 3)]
    assert {one.path: one.is_dir for one in tracking.list_artifacts(run.pk)} == {"notes": True, "plain.bin": False}
    assert [one.path for one in tracking.list_artifacts(run.pk, "notes")] == ["notes/hello.txt"]
    assert Path(tracking.download_artifacts(run.pk, "plain.bin", str(tmp_path))).read_bytes() == b"\0\1\2"


def test_the_script_of_the_page_runs(tracking: MlflowClient) -> None:
    [script] = re.findall(r"```python\n(.*?)```", (DOCS / "coming_from_mlflow.md").read_text(), re.DOTALL)
    exec(script, {})
    run = Run.objects.get(name="first")
    assert run.config == {"lr": 0.01, "model": {"width": 64}} and len(stored_points(run.pk)) == 1


def test_a_batch_that_comes_again_is_stored_once(tracking: MlflowClient) -> None:
    run = tracking.create_run("0")
    metrics = [Metric("loss", math.nan if step == 7 else step / 8, 1_000 + step, step) for step in range(500)]
    for _ in range(2):
        tracking.log_batch(run.info.run_id, metrics, [Param("a", "1")], [RunTag("k", "v")])
    tracking.log_batch(run.info.run_id, metrics=[*metrics[-2:], Metric("loss", 9.0, 5, 499), *metrics[:2]])
    tracking.log_metric(run.info.run_id, "loss", 0.0, timestamp=1_000, step=0)
    assert sum(map(len, stored_points(run.info.run_id).values())) == 501


@pytest.mark.parametrize("has_steps", [True, False])
def test_what_goes_on_where_others_ended_reads_none_of_them(
    has_steps: bool, tracking: MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Any] = []
    monkeypatch.setattr(
        "runs.actions.mlflow.curves", lambda *args, **words: read.append(args) or curves(*args, **words)
    )
    run = tracking.create_run("0").info.run_id
    batches = [[Metric("loss", n / 8, 1_000 + n, n * has_steps) for n in range(first, first + 50)] for first in (0, 50)]
    for metrics in batches:
        tracking.log_batch(run, metrics)
    assert read == []
    for metrics in batches:
        tracking.log_batch(run, metrics)
    assert len(read) == 2 and sum(map(len, stored_points(run).values())) == 100


def test_a_status_is_what_the_client_says_also_without_any_metric(tracking: MlflowClient) -> None:
    for said, status in (("FINISHED", "SUCCEEDED"), ("FAILED", "FAILED"), ("KILLED", "CANCELLED")):
        run = tracking.create_run("0", start_time=1_700_000_000_000).info.run_id
        assert tracking.get_run(run).info.status == "RUNNING"
        tracking.set_terminated(run, said, end_time=1_700_000_060_000)
        assert Run.objects.get(pk=run).status == status
        tracking.log_metric(run, "late", 1.0)
        info = tracking.get_run(run).info
        assert (info.status, info.start_time, info.end_time) == (said, 1_700_000_000_000, 1_700_000_060_000)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ["b", "a"]),
        ("metrics.loss < 0.3", ["a"]),
        ("metrics.`loss` > 0.25 AND params.lr = '0.1'", ["b"]),
        ("params.kind != 'x'", ["b"]),
        ("tags.phase = 'one'", ["a"]),
        ("tags.phase != 'one'", ["b"]),
        ("tags.mlflow.parentRunId = 'p-one'", ["a"]),
        ("tags.`mlflow.parentRunId` IN ('p-one', 'p-two')", ["b", "a"]),
        ("tags.mlflow.parentRunId != 'p-one'", ["b"]),
        ("tags.mlflow.parentRunId = 'nobody'", []),
        ("attributes.status = 'FINISHED'", ["a"]),
        ("run_name LIKE '%b%'", ["b"]),
        ("attributes.run_name IN ('a', 'c')", ["a"]),
        ("start_time > 0", ["b", "a"]),
    ],
)
def test_filters_are_those_of_mlflow(tracking: MlflowClient, text: str, names: list[str]) -> None:
    for name, loss, phase in (("a", 0.25, "one"), ("b", 0.5, "two")):
        run = tracking.create_run(
            "0", run_name=name, tags={"phase": phase, "mlflow.parentRunId": f"p-{phase}"}
        ).info.run_id
        tracking.log_metric(run, "loss", loss)
        tracking.log_param(run, "lr", "0.1")
        tracking.log_param(run, "kind", "x" if name == "a" else "y")
        if name == "a":
            tracking.set_terminated(run)
    found = tracking.search_runs(["0"], text)
    assert [one.info.run_name for one in found] == names
    ordered = tracking.search_runs(["0"], order_by=["metrics.loss ASC"], max_results=1)
    assert [one.info.run_name for one in ordered] == ["a"] and ordered.token
    [other] = tracking.search_runs(["0"], order_by=["metrics.loss ASC"], max_results=1, page_token=ordered.token)
    assert other.info.run_name == "b"


def test_what_is_refused_has_mlflows_code_and_a_sentence(tracking: MlflowClient, cast: Cast) -> None:
    started = tracking.create_run("0")
    run = started.info.run_id
    assert started.info.user_id == "unknown" and set(started.data.tags) == {"mlflow.runName"}  # as its client says it
    tracking.log_param(run, "lr", "0.1")
    tracking.log_param(run, "lr", "0.1")
    for code, call in (
        ("INVALID_PARAMETER_VALUE", lambda: tracking.log_param(run, "lr", "0.2")),
        ("RESOURCE_DOES_NOT_EXIST", lambda: tracking.get_run("nothing")),
        ("RESOURCE_DOES_NOT_EXIST", lambda: tracking.delete_tag(run, "nothing")),
        ("INVALID_PARAMETER_VALUE", lambda: tracking.search_runs(["0"], "metrics.loss ! 3")),
        ("INVALID_PARAMETER_VALUE", lambda: tracking.search_runs(["0"], "tags.mlflow.source.name LIKE '%a%'")),
        ("INVALID_PARAMETER_VALUE", lambda: tracking.search_runs(["0"], """tags.`mlflow.a"b` = 'x'""")),
        ("ENDPOINT_NOT_FOUND", lambda: tracking.create_registered_model("m")),
        ("INVALID_STATE", lambda: tracking.rename_experiment("0", "other")),
        ("RESOURCE_ALREADY_EXISTS", lambda: tracking.create_experiment("default")),
        ("INVALID_PARAMETER_VALUE", lambda: tracking.search_experiments(filter_string="colour = 'red'")),
        ("INVALID_PARAMETER_VALUE", lambda: tracking.search_logged_models(["0"], order_by=[{"field_name": "colour"}])),
    ):
        with pytest.raises(MlflowException) as refusal:
            call()
        assert refusal.value.error_code == code and refusal.value.message
    assert tracking.get_experiment_by_name("nothing") is None
    tracking.set_terminated(run)
    tracking.delete_run(run)
    for view, found in ((ViewType.ACTIVE_ONLY, []), (ViewType.DELETED_ONLY, [run]), (ViewType.ALL, [run])):
        assert [one.info.run_id for one in tracking.search_runs(["0"], run_view_type=view)] == found
    tracking.restore_run(run)
    assert [one.info.run_id for one in tracking.search_runs(["0"])] == [run]


def test_an_experiment_of_any_name_is_a_group_of_runs_in_a_project(tracking: MlflowClient, cast: Cast) -> None:
    experiment = mlflow.set_experiment("MLflow Quickstart / 1")
    with mlflow.start_run() as active:
        mlflow.log_metric("loss", 0.5)
    run = Run.objects.get(pk=active.info.run_id)
    assert (run.project, run.spec["local"]["group"]) == (cast.project, "MLflow Quickstart / 1")
    assert active.info.experiment_id == experiment.experiment_id
    other = tracking.create_run("0", run_name="beside").info.run_id
    assert [one.info.run_id for one in tracking.search_runs([experiment.experiment_id])] == [run.pk]
    assert {one.info.run_id for one in tracking.search_runs(["0"])} == {run.pk, other}
    tracking.rename_experiment(experiment.experiment_id, "Second")
    run.refresh_from_db()
    assert run.spec["local"]["group"] == "Second"
    assert [one.info.run_id for one in tracking.search_runs([experiment.experiment_id])] == [run.pk]
    tracking.delete_experiment(experiment.experiment_id)
    with pytest.raises(MlflowException, match="is deleted"):
        tracking.create_run(experiment.experiment_id)
    tracking.set_terminated(other)
    tracking.delete_run(other)
    assert {one.info.run_id for one in tracking.search_runs(["0"], run_view_type=ViewType.ALL)} == {run.pk, other}


def test_experiments_are_found_by_name_tag_and_whether_they_are_deleted(tracking: MlflowClient) -> None:
    made = {name: tracking.create_experiment(name, tags={"team": name[0]}) for name in ("ab", "ac", "b_")}
    tracking.delete_experiment(made["ac"])
    tracking.set_experiment_tag(made["b_"], "kept", "yes")
    for asked, names in (
        ({"filter_string": "name LIKE 'a%'"}, ["ab"]),
        ({"filter_string": "name LIKE 'a%'", "view_type": ViewType.ALL, "order_by": ["name DESC"]}, ["ac", "ab"]),
        ({"filter_string": "tags.kept = 'yes' AND attribute.name != 'ab'"}, ["b_"]),
        ({"view_type": ViewType.DELETED_ONLY}, ["ac"]),
        ({"order_by": ["name"]}, ["Default", "ab", "b_"]),
    ):
        assert [one.name for one in tracking.search_experiments(**asked)] == names, asked
    first = tracking.search_experiments(max_results=2, order_by=["name"])
    rest = tracking.search_experiments(max_results=2, order_by=["name"], page_token=first.token)
    assert [one.name for one in [*first, *rest]] == ["Default", "ab", "b_"] and not rest.token


def test_whoever_only_looks_makes_and_changes_no_experiment(
    tracking: MlflowClient, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = tracking.create_experiment("theirs")
    _, secret = actions.create_token(actor=cast.viewer, name="mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", secret)
    for change in (
        lambda: tracking.create_experiment("mine"),
        lambda: tracking.rename_experiment(experiment, "mine"),
        lambda: tracking.set_experiment_tag(experiment, "a", "b"),
        lambda: tracking.delete_experiment(experiment),
    ):
        with pytest.raises(MlflowException) as refusal:
            change()
        assert refusal.value.error_code == "PERMISSION_DENIED"


def test_what_a_run_reads_and_makes_comes_back_and_a_models_metrics_are_its_own(tracking: MlflowClient) -> None:
    run = tracking.create_run("0").info.run_id
    model = tracking.create_logged_model("0", name="first", source_run_id=run, params={"depth": "3"})
    other = tracking.create_logged_model("0", name="second", source_run_id="elsewhere")  # which gets a run of its own
    assert other.source_run_id == "elsewhere"
    dataset = DatasetInput(Dataset("rows", "abc", "local", "{}"), [InputTag("mlflow.data.context", "training")])
    tracking.log_inputs(run, [dataset], [LoggedModelInput(other.model_id)])
    tracking.log_outputs(run, [LoggedModelOutput(model.model_id, 7)])
    for value in (0.25, math.inf, 0.75):
        for _ in range(2):
            tracking.log_metric(run, "score", value, timestamp=5, step=1, model_id=model.model_id)
    found = tracking.get_run(run)
    assert [one.dataset.name for one in found.inputs.dataset_inputs] == ["rows"]
    assert [one.model_id for one in found.inputs.model_inputs] == [other.model_id]
    assert [(one.model_id, one.step) for one in found.outputs.model_outputs] == [(model.model_id, 7)]
    held = tracking.get_logged_model(model.model_id)
    assert [one.value for one in held.metrics] == [0.25, math.inf, 0.75] and held.source_run_id == run
    for text, names in (
        ("", ["second", "first"]), ("metrics.score > 0.5", ["first"]), ("params.depth = '3'", ["first"]),
        ("name != 'first'", ["second"]), ("source_run_id = 'x'", []),
    ):  # fmt: skip
        assert [one.name for one in tracking.search_logged_models(["0"], text)] == names, text
    ordered = tracking.search_logged_models(["0"], order_by=[{"field_name": "metrics.score", "ascending": False}])
    assert [one.name for one in ordered] == ["first", "second"]
    tracking.set_logged_model_tags(model.model_id, {"a": "1", "b": "2"})
    tracking.delete_logged_model_tag(model.model_id, "a")
    assert tracking.get_logged_model(model.model_id).tags == {"b": "2"}
    tracking.delete_logged_model(model.model_id)
    assert [one.name for one in tracking.search_logged_models(["0"])] == ["second"]


def test_an_outsider_finds_none_of_it(
    tracking: MlflowClient, cast: Cast, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = tracking.create_run("0").info.run_id
    tracking.log_text(run, "secret", "secret.txt")
    _, secret = actions.create_token(actor=cast.outsider, name="mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", secret)
    for call in (
        lambda: tracking.get_run(run),
        lambda: tracking.log_metric(run, "loss", 1.0),
        lambda: tracking.list_artifacts(run),
        lambda: tracking.create_run("0"),
        lambda: tracking.create_experiment("mine"),
        lambda: tracking.download_artifacts(run, "secret.txt", str(tmp_path)),
    ):
        with pytest.raises(Exception, match=r"404|not found|no project"):
            call()
    assert tracking.search_runs(["0"]) == [] and tracking.search_experiments() == []


def test_autolog_of_scikit_learn_logs_parameters_metrics_and_the_model(tracking: MlflowClient) -> None:
    from sklearn.linear_model import LogisticRegression

    mlflow.set_experiment("default")
    mlflow.sklearn.autolog(silent=True)
    try:
        with mlflow.start_run() as active:
            LogisticRegression(C=0.5).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    finally:
        mlflow.sklearn.autolog(disable=True, silent=True)
    found = tracking.get_run(active.info.run_id)
    assert found.info.status == "FINISHED" and found.data.params["C"] == "0.5"
    assert found.data.metrics["training_accuracy_score"] == 1.0
    [model] = mlflow.search_logged_models(experiment_ids=["0"], output_format="list")
    assert model.status == LoggedModelStatus.READY and model.source_run_id == active.info.run_id
    paths = {one["path"] for one in outputs.listing(active.info.run_id)}
    assert any(path.endswith("MLmodel") for path in paths), paths


@pytest.mark.extended
def test_autolog_of_lightning_logs_parameters_metrics_and_the_model(tracking: MlflowClient, tmp_path: Path) -> None:
    import lightning.pytorch as lightning
    import torch

    class Line(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)

        def training_step(self, batch: Any, _: int) -> Any:
            loss = self.layer(batch[0]).pow(2).mean()
            self.log("train_loss", loss)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    mlflow.set_experiment("default")
    mlflow.pytorch.autolog(silent=True)
    try:
        with mlflow.start_run() as active:
            trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False,
                                        default_root_dir=tmp_path, enable_progress_bar=False)  # fmt: skip
            trainer.fit(Line(), torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(8, 2))))
    finally:
        mlflow.pytorch.autolog(disable=True, silent=True)
    found = tracking.get_run(active.info.run_id)
    assert found.data.params["lr"] == "0.1" and "train_loss" in found.data.metrics
    assert any(one["path"].endswith("MLmodel") for one in outputs.listing(active.info.run_id))


@pytest.mark.extended
def test_the_trainer_of_transformers_reports_here(
    tracking: MlflowClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    import transformers

    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "default")
    config = transformers.GPT2Config(n_layer=1, n_head=1, n_embd=8, vocab_size=16, n_positions=8)
    told = transformers.TrainingArguments(
        str(tmp_path), max_steps=3, logging_steps=1, report_to=["mlflow"], use_cpu=True, run_name="hf"
    )
    rows = [dict.fromkeys(("input_ids", "labels"), torch.tensor([1, 2, 3]))] * 8
    transformers.Trainer(model=transformers.GPT2LMHeadModel(config), args=told, train_dataset=rows).train()
    run = Run.objects.get()
    assert (run.name, run.status) == ("hf", "SUCCEEDED") and run.config["max_steps"] == 3
    assert [one.step for one in tracking.get_metric_history(run.pk, "loss")] == [1, 2, 3]


def test_a_fact_of_a_script_that_is_no_model_is_not_found(tracking: MlflowClient) -> None:
    mlflow.set_experiment("default")
    with mlflow.start_run() as active:
        model_id = "m-" + "0" * 32
        keep_fact(Run.objects.get(pk=active.info.run_id), model_id, {"info": 1})
        with pytest.raises(MlflowException, match="was not found"):
            tracking.finalize_logged_model(model_id, LoggedModelStatus.READY)


def test_a_run_of_nodes_takes_no_files_tags_or_end(tracking: MlflowClient, make_run: Any, tmp_path: Path) -> None:
    run_id = make_run().pk
    (tmp_path / "weights.bin").write_bytes(b"other")
    for change in (
        lambda: tracking.log_artifact(run_id, str(tmp_path / "weights.bin")),
        lambda: tracking.set_tag(run_id, "mlflow.runName", "mine"),
        lambda: tracking.set_terminated(run_id),
    ):
        with pytest.raises((MlflowException, requests.HTTPError), match="trains on nodes"):
            change()
    assert outputs.listing(run_id) == [] and Run.objects.get(pk=run_id).name != "mine"
