"""What a script sends to W&B, beside what W&B's own file holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from wandb.proto import wandb_internal_pb2

from tests.trainyard.shadow.shadowed import RANDOM, exact, shadowed
from trainyard.doors.wandb import chunks

CALLS = (
    RANDOM
    + """
import wandb

run = wandb.init(project="digits")
step = 0
for _ in range(calls):
    row = {name: number() for name in names()}
    if chance.random() < 0.1:
        row["inner"] = {name: number() for name in names()}
    how = chance.random()
    if how < 0.5:
        wandb.log(row)
    elif how < 0.7:
        run.log(row, commit=chance.random() < 0.5)
    else:
        step = run.step + chance.randrange(-2, 5)
        run.log(row, step=max(0, step), commit=chance.choice([None, True, False]))
wandb.finish()
"""
)

SCRIPT = """
import sys, numpy, wandb

with wandb.init(project="digits", name="wide", config={"lr": 0.5}, tags=["a"], notes="why", group="g") as run:
    run.define_metric("val/acc", summary="max")
    for step in range(3):
        wandb.log({"loss": numpy.float32(0.1) * step, "val": {"acc": step}, "word": "a"})
    wandb.config.update({"width": 64})
    run.config.depth = 2
    run.summary["best"] = 0.25
    wandb.log({"weights": wandb.Histogram([1.0, 2.0, 2.0], num_bins=2), "page": wandb.Html("<b>x</b>"),
               "table": wandb.Table(columns=["k", "v"], data=[["x", 1]]), "clip": wandb.Object3D(numpy.zeros((4, 3))),
               "picture": [wandb.Image(numpy.zeros((4, 3, 3), "uint8"), caption="black")]})
    wandb.log({"line": wandb.plot.line(wandb.Table(columns=["x", "y"], data=[[1, 2]]), "x", "y")})
    wandb.save("train.py")
"""


def kept_by_wandb(folder: Path) -> dict[str, list[tuple[int, str]]]:
    """Return what the one file below the folder holds, by W&B's own definition of its records."""
    [path] = folder.rglob("run-*.wandb")
    found: dict[str, list[tuple[int, str]]] = {}

    def add(name: str, step: int, value: Any) -> None:
        if isinstance(value, dict):
            for inner, one in value.items():
                add(f"{name}/{inner}", step, one)
        else:
            found.setdefault(name, []).append((step, float(value).hex()))

    with path.open("rb") as file:
        for body, _ in chunks(file, path.stat().st_size, pytest.fail):
            history = wandb_internal_pb2.Record.FromString(body).history
            for item in history.item:
                keys = list(item.nested_key) or [item.key]
                if not keys[0].startswith("_"):
                    add("/".join(keys), history.step.num, json.loads(item.value_json))
    return {name: sorted(series) for name, series in found.items()}


def test_two_thousand_random_calls_are_to_the_bit_what_wandbs_file_holds(tmp_path: Path) -> None:
    done = shadowed(tmp_path, CALLS, "20261126", "2000")
    assert done.code == 0, done.err
    assert exact(done.points()) == kept_by_wandb(tmp_path)
    assert sum(map(len, done.points().values())) > 1_000


def test_a_run_brings_its_configuration_summary_media_and_name(tmp_path: Path) -> None:
    done = shadowed(tmp_path, SCRIPT)
    assert done.code == 0, done.err
    found = done.points()
    assert [step for step, _ in found["loss", ()]] == [0, 1, 2]
    assert found["val/acc", ()] == [(0, 0.0), (1, 1.0), (2, 2.0)]
    assert found["summary/best", ()] == [(2, 0.25)]
    last = done.payloads("description")[-1]
    assert last["config"] == {"lr": 0.5, "width": 64, "depth": 2}
    assert (last["tags"], last["notes"], last["group"]) == (["a", "digits"], "why", "g")
    assert {one["name"]: one["kind"] for one in done.payloads("media")} == {
        "word": "text", "weights": "histogram", "page": "text", "table": "table", "clip": "text", "picture": "image",
        "line": "table",
    }  # fmt: skip
    assert done.payloads("begin")[0]["name"] == "wide" and done.reason == "finish"
    assert list((tmp_path / "trainyard-spool").glob("*/files/train.py"))
    assert "log_artifact" not in done.err, "a table's own file was not logged by the script"


def test_only_keeps_all_from_wandb_and_loses_nothing(tmp_path: Path) -> None:
    (both := tmp_path / "both").mkdir()
    (only := tmp_path / "only").mkdir()
    first, second = shadowed(both, CALLS, "7", "300"), shadowed(only, CALLS, "7", "300", options=("--only",))
    assert second.code == 0, second.err
    assert list(both.rglob("*.wandb")) and not list(only.rglob("*.wandb"))
    assert second.points() and second.reason == "finish"
    assert exact(second.points())["loss"][:1] == exact(first.points())["loss"][:1]


def test_a_run_that_the_script_switched_off_is_not_mirrored(tmp_path: Path) -> None:
    done = shadowed(tmp_path, 'import wandb\nwandb.init(mode="disabled")\nwandb.log({"a": 1})\n')
    assert (done.code, done.spools) == (0, [])


def test_a_run_beside_an_open_one_has_a_label(tmp_path: Path) -> None:
    done = shadowed(tmp_path, """
import wandb
runs = [wandb.init(name=name, reinit="create_new") for name in ("a", "b")]
for step in range(3):
    for value, run in enumerate(runs):
        run.log({"loss": value})
for run in runs:
    run.finish()
""")  # fmt: skip
    assert done.code == 0, done.err
    found = done.points()
    assert [value for _, value in found["loss", ()]] == [0.0] * 3
    assert [value for _, value in found["loss", (("run", "b"),)]] == [1.0] * 3 and done.reason == "finish"


def test_runs_behind_each_other_are_runs_of_their_own(tmp_path: Path) -> None:
    done = shadowed(tmp_path, """
import wandb
for fold in range(2):
    wandb.init(name=f"fold-{fold}")
    wandb.log({"loss": fold})
    wandb.finish(exit_code=fold)
""")  # fmt: skip
    assert done.code == 0 and len(done.spools) == 2, done.err
