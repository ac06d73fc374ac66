"""`trainyard submit` with `--follow` and `--wait`, against a whole Trainyard that trains."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.up_process import Up

pytestmark = pytest.mark.usefixtures("valkey")


def test_a_run_is_followed_to_its_end(running_trainyard: Up, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('hello from a rank')")
    (tmp_path / "run.yaml").write_text("name: mine\ntask: {script: train.py, code: .}\n")
    (tmp_path / "bad.py").write_text("raise SystemExit(3)")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TRAINYARD_")}

    def submit(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "trainyard", "submit", "run.yaml", *words],
            env={**inherited, "TRAINYARD_HOME": str(running_trainyard.home), "PYTHONPATH": str(Path.cwd())},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )

    good = submit("--follow")
    assert good.returncode == 0, good.stderr
    assert "[0] hello from a rank" in good.stderr and "SUCCEEDED" in good.stderr
    assert len(good.stdout.split()) == 1
    gave_up = submit("--wait", "--set", "resources.nodes=2")
    assert gave_up.returncode == 0, gave_up.stderr
    assert "remark: 2 ranks ended within" in gave_up.stderr and "none joined a process group" in gave_up.stderr
    bad = submit("--wait", "--set", "task.script=bad.py")
    assert bad.returncode == 1 and "FAILED" in bad.stderr
