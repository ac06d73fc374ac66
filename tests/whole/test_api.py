"""A notebook's way: a script logs elsewhere, its run is found by a filter, and its history is a table."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import trainyard
from tests.up_process import OURS, ROOT, Up
from tests.whole.test_command_line import trainyard as command

SCRIPT = """
import trainyard
with trainyard.init("for the api", config={"optimizer": {"lr": 0.25}}, tags=["api"]) as run:
    for step in range(1000):
        run.log({"train": {"loss": 1 / (step + 1)}, "odd": float("nan") if step % 2 else step}, step=step)
"""


@pytest.mark.extended
def test_a_run_is_found_by_its_configuration_and_read_whole(running_trainyard: Up, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(ROOT)},
        check=True,
        timeout=60,
    )
    assert command(running_trainyard, "sync", str(tmp_path / "trainyard-spool")).returncode == 0
    api = trainyard.Api(running_trainyard.url, running_trainyard.token)
    [run] = api.runs("config.optimizer.lr = 0.25 and tag = api")
    assert (run.name, run.status, run.config) == ("for the api", "SUCCEEDED", {"optimizer": {"lr": 0.25}})
    frame = run.history(format="pandas")
    assert list(frame.columns) == ["step", "time", "odd", "train/loss"] and len(frame) == 1000
    assert frame["train/loss"].tolist() == [1 / (step + 1) for step in range(1000)]
    assert run.history("train/loss", "polars").shape == (1000, 3)
    assert next(iter(run.scan_history("train/loss")))["train/loss"] == 1.0
    together = api.runs("tag = api").history(["odd"], "arrow")
    assert together.num_rows == 1000 and set(together["run"].to_pylist()) == {run.id}
    assert api.runs("tag = api").summaries()[0]["config.optimizer.lr"] == 0.25
    assert "default" in api.projects()
