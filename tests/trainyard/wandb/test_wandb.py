"""A script of W&B goes on with another import line: what it logged, in the spool."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pandas
import PIL.Image
import pytest
import torch

import trainyard.wandb as wandb
from tests.trainyard.sdk.test_description import descriptions
from tests.trainyard.spooled import points, producers
from trainyard.wandb import data_types


@pytest.fixture(autouse=True)
def _none_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wandb, "run", None)
    monkeypatch.setattr(data_types.warn, "_topics", set())


class Figure:
    """As Matplotlib's figures are."""

    def savefig(self, file: BinaryIO, format: str) -> None:
        PIL.Image.new("RGB", (2, 2)).save(file, format)


def test_a_common_script_runs_with_another_import(spool: Path) -> None:
    with wandb.init(project="mnist", name="cnn", config={"lr": 0.5, "epochs": 2}, tags=["a"], group="g") as run:
        wandb.define_metric("val/acc", summary="max", goal="maximize")
        wandb.config.update({"width": 64})
        for epoch in range(wandb.config.epochs):
            wandb.log({"loss": wandb.config["lr"] ** epoch, "epoch": epoch})
            run.log({"val": {"acc": 0.25 * epoch}})
        run.summary["best"] = 0.25
        assert (run.summary["best"], run.summary["loss"], wandb.run) == (0.25, 0.5, run)
    [frames] = producers(spool)
    found = points(frames)
    assert found["loss", ()] == [(0, 1.0), (2, 0.5)]
    assert found["val/acc", ()] == [(1, 0.0), (3, 0.25)]
    assert found["summary/best", ()] == [(3, 0.25)]
    last = descriptions(spool)[-1]
    assert last.config == {"lr": 0.5, "epochs": 2, "width": 64}
    assert (last.tags, last.group, last.metrics["val/acc"].goal) == (["a"], "g", "max")
    assert frames[-1].kind == "end" and frames[-1].payload["reason"] == "finish"


def test_steps_are_those_of_wandb(spool: Path) -> None:
    wandb.init()
    wandb.log({"a": 1})
    wandb.log({"a": 2}, commit=False)
    wandb.log({"b": 2})
    wandb.log({"a": 3}, step=10)
    wandb.log({"b": 3}, step=10)
    wandb.log({"a": 4})
    wandb.log({"a": 5}, step=12, commit=True)
    wandb.log({"a": 6})
    wandb.finish()
    found = points(producers(spool)[0])
    assert sorted(found["a", ()]) == [(0, 1.0), (1, 2.0), (10, 3.0), (10, 4.0), (12, 5.0), (13, 6.0)]
    assert sorted(found["b", ()]) == [(1, 2.0), (10, 3.0)]


def test_media_become_those_of_trainyard(spool: Path) -> None:
    wandb.init()
    table = wandb.Table(columns=["image", "guess"])
    table.add_data(wandb.Image(np.zeros((2, 2), np.uint8)), 3)
    wandb.log(
        {
            "picture": [wandb.Image(np.zeros((4, 4, 3)), caption="black")],
            "figure": Figure(),
            "weights": torch.ones(4),
            "counted": wandb.Histogram(np_histogram=np.histogram([1.0, 2.0])),
            "table": table,
            "confusion": wandb.plot.confusion_matrix(y_true=[0, 1, 1], preds=[0, 0, 1], class_names=["cat", "dog"]),
            "clip": wandb.Video(np.zeros((2, 1, 4, 4), np.uint8), fps=8, format="mp4"),
            "solid": wandb.Object3D("solid.obj"),
        }
    )
    wandb.finish()
    kept = {frame.payload["name"]: frame.payload for frame in producers(spool)[0] if frame.kind == "media"}
    assert {name: one["kind"] for name, one in kept.items()} == {
        "picture": "image", "figure": "image", "weights": "histogram", "counted": "histogram", "table": "table",
        "confusion": "table", "clip": "image", "solid": "text",
    }  # fmt: skip
    assert kept["picture"]["meta"]["caption"] == "black"
    assert b"[image]" in kept["table"]["data"] and b"Object3D" in kept["solid"]["data"]


def test_frames_of_pandas_and_figures_of_plotly_are_taken_for_what_they_are(spool: Path) -> None:
    plotly = type("Figure", (), {"__module__": "plotly.graph_objs._figure"})
    with wandb.init():
        wandb.log({"rows": pandas.DataFrame({"k": [1, 2], "v": [0.5, 1.5]}), "figure": plotly()})
    [frames] = producers(spool)
    kept = {frame.payload["name"]: frame.payload for frame in frames if frame.kind == "media"}
    assert {name: one["kind"] for name, one in kept.items()} == {"rows": "table", "figure": "text"}


def test_a_key_of_the_configuration_changes_only_where_it_is_said(spool: Path) -> None:
    wandb.init(config={"lr": 1})
    with pytest.raises(ValueError, match=r"config\.lr is 1 and cannot become 2"):
        wandb.config.lr = 2
    wandb.config.update({"lr": 2}, allow_val_change=True)
    wandb.config.setdefaults({"lr": 3, "depth": 4})
    assert dict(wandb.config) == {"lr": 2, "depth": 4}
    wandb.finish()


def test_what_is_not_kept_warns_once_and_training_goes_on(spool: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "trainyard")
    run = wandb.init(entity="team", sync_tensorboard=True)
    for _ in range(2):
        wandb.save("model.pt")
        artifact = wandb.Artifact("weights", type="model")
        artifact.add_file("model.pt")
        run.log_artifact(artifact)
    wandb.finish()
    said = [record.getMessage() for record in caplog.records]
    assert [one for one in said if "wandb.save: there is no file 'model.pt'" in one] == [said[2]]
    assert sum("the artifact 'weights'" in one for one in said) == 1
    assert "entity='team' has no counterpart" in said[0]


@pytest.mark.parametrize("name", ["Api", "sweep", "agent"])
def test_a_name_whose_result_is_needed_is_refused_with_a_sentence(name: str) -> None:
    with pytest.raises(wandb.Unsupported, match=rf"wandb\.{name}: Trainyard has no counterpart of it\. .+"):
        getattr(wandb, name)()


def test_logging_before_init_is_refused() -> None:
    with pytest.raises(wandb.Error, match=r"wandb\.init\(\) before wandb\.log"):
        wandb.log({"a": 1})
    with pytest.raises(AttributeError, match="has no 'nonsense'"):
        wandb.nonsense  # noqa: B018


def test_the_environment_says_what_is_not_given(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_NAME", "by-environment")
    monkeypatch.setenv("WANDB_TAGS", "a,b")
    run = wandb.init()
    assert (run.name, run.tags) == ("by-environment", ("a", "b"))
    wandb.finish()
    assert wandb.run is None


DOCS = (Path(__file__).parents[3] / "docs/coming_from_wandb.md").read_text()
ROWS = [(name, how) for names, how in re.findall(r"^\| (`.+?`) \| (\w[\w ]*) \|", DOCS, re.M)
        for name in re.findall(r"`(\w+)`", names)]  # fmt: skip
# ``__all__`` of W&B 0.31, without its version and the class of ``run``.
THEIRS = """
init finish setup save sweep controller agent config log summary join Api Graph Image Plotly Video Audio Table
EvalTable Html box3d Object3D Molecule Histogram ArtifactTTL log_artifact use_artifact log_model use_model
link_model define_metric watch unwatch
"""


def test_the_page_says_of_every_public_name_what_becomes_of_it(spool: Path) -> None:
    assert {name for name, _ in ROWS} >= set(THEIRS.split())
    wandb.init()
    for name, how in ROWS:
        if how != "refused":
            assert getattr(wandb, name) is not None, name
        else:
            with pytest.raises(wandb.Unsupported, match=rf"wandb\.{name}: "):
                getattr(wandb, name)()


def test_the_script_of_the_page_runs(spool: Path) -> None:
    script = re.search(r"```python\n(.*?)```", DOCS, re.S)
    assert script
    exec(script[1], {})
    assert points(producers(spool)[0])["loss", ()] == [(epoch, 1 / (epoch + 1)) for epoch in range(5)]
