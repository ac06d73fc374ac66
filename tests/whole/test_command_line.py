"""The command line against a running Trainyard, as docs/cli.md says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.up_process import OURS, ROOT, Up
from tests.whole.runs import Yard

QUICK = {"train.steps": 20, "train.validate_every_steps": 10, "train.warmup_steps": 2, "train.batch_size": 8,
         "task.model.layers": 1, "task.model.width": 32, "task.model.heads": 2, "task.model.context": 32}  # fmt: skip


def trainyard(up: Up, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    environment["TRAINYARD_HOME"] = str(up.home)
    return subprocess.run(
        [sys.executable, "-m", "trainyard", *words], cwd=ROOT, env=environment, capture_output=True, text=True,
        timeout=180, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def finished(running_trainyard: Up) -> str:
    """A run that was submitted with --wait, by its id."""
    changes = [word for path, value in QUICK.items() for word in ("--set", f"{path}={value}")]
    done = trainyard(running_trainyard, "submit", "examples/hello-gpt.yaml", *changes, "--wait")
    assert done.returncode == 0, done.stderr
    run_id = done.stdout.strip()
    assert run_id.isalnum(), "stdout is the run's id alone"
    return run_id


def test_submit_and_wait_train_and_print_the_id_alone(running_trainyard: Up, finished: str) -> None:
    shown = trainyard(running_trainyard, "show", finished, "--json")
    assert shown.returncode == 0, shown.stderr
    run = json.loads(shown.stdout)
    assert run["status"] == "SUCCEEDED"
    assert run["summary"]["train/loss"]["count"] == 20


def test_logs_metrics_and_lists_read_it_back(running_trainyard: Up, finished: str) -> None:
    logs = trainyard(running_trainyard, "logs", finished)
    assert logs.returncode == 0
    assert "step" in logs.stdout
    table = trainyard(running_trainyard, "metrics", finished, "train/loss", "--csv")
    assert len(table.stdout.strip().splitlines()) == 21, "a header and 20 steps"
    for words in (("runs",), ("nodes",), ("clusters",)):
        listed = trainyard(running_trainyard, *words, "--json")
        assert listed.returncode == 0
        assert json.loads(listed.stdout)


def test_wait_is_zero_only_for_success(running_trainyard: Up, finished: str) -> None:
    assert trainyard(running_trainyard, "wait", finished).returncode == 0


def test_the_weights_are_among_the_files(yard: Yard, finished: str) -> None:
    """They are sent when the run is over, and nobody waits for that to say that it is."""
    names: set[str] = set()
    deadline = time.monotonic() + 60
    while "model.safetensors" not in names and time.monotonic() < deadline:
        names = {file["path"] for file in yard.get(f"/runs/{finished}/files")["items"]}
        time.sleep(0.1)
    assert "model.safetensors" in names


def test_an_invalid_spec_exits_2_with_the_path_and_makes_no_row(running_trainyard: Up, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("name: a<b\ntask: {recipe: language-model, model: {heads: 3}}\nnonsense: 1\n")
    before = ids_of_runs(running_trainyard)
    done = trainyard(running_trainyard, "submit", str(bad))
    assert done.returncode == 2
    for path in ("name:", "nonsense:"):
        assert path in done.stderr
    assert ids_of_runs(running_trainyard) == before


def ids_of_runs(up: Up) -> list[str]:
    return [run["id"] for run in json.loads(trainyard(up, "runs", "--json").stdout)["items"]]


def test_a_script_that_raises_ends_failed_with_its_traceback(running_trainyard: Up, tmp_path: Path) -> None:
    (tmp_path / "boom.py").write_text("def deep():\n    raise RuntimeError('the boiler is cold')\n\ndeep()\n")
    spec = tmp_path / "boom.yaml"
    spec.write_text("name: boom\nresources: {nodes: 1}\ntask: {script: boom.py, code: .}\n")
    done = trainyard(running_trainyard, "submit", str(spec), "--wait")
    assert done.returncode == 1, done.stderr
    run = json.loads(trainyard(running_trainyard, "show", done.stdout.strip(), "--json").stdout)
    assert run["status"] == "FAILED"
    assert "rank 0" in run["reason"]["sentence"].lower()
    assert "the boiler is cold" in json.dumps(run["reason"])
    assert "in deep" in json.dumps(run["reason"]["evidence"])
