"""`trainyard ci` against a running Trainyard: first runs of a branch, a change that is as good, one that is worse."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.up_process import Up
from tests.whole.test_command_line import trainyard
from trainyard.cli.pipelines import REQUESTS

SCRIPT = """
import os, random, trainyard
noise = random.Random(int(os.environ["SEED"])).gauss(0, 0.1)
with trainyard.init() as run:
    run.log({"eval/loss": 2.0 + noise + float(os.environ.get("WORSE", 0))}, step=1)
"""
SPEC = "name: learn\nresources: {nodes: 1, processes_per_node: 1}\n" \
       "task: {script: learn.py, code: learn.py, environment: {}}\n"  # fmt: skip
FILE = """
spec: learn.yaml
metric: eval/loss
seed: task.environment.SEED
runs: 6
baseline: {branch: main}
"""


def test_a_pipeline_is_green_until_a_change_is_worse(
    running_trainyard: Up, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*REQUESTS, "GITHUB_EVENT_NAME"):  # of the pipeline that runs this test
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "learn.py").write_text(SCRIPT)
    (tmp_path / "learn.yaml").write_text(SPEC)
    (tmp_path / "ci.yaml").write_text(FILE)
    report, summary = tmp_path / "report.xml", tmp_path / "summary.md"
    words = ("ci", str(tmp_path / "ci.yaml"), "--junit", str(report), "--markdown", str(summary))
    first = trainyard(running_trainyard, *words, "--branch", "main")
    assert first.returncode == 0, first.stdout + first.stderr
    assert "no green run of main yet" in first.stdout
    same = trainyard(running_trainyard, *words, "--branch", "topic")
    assert same.returncode == 0 and "to compare with 6" in same.stderr, same.stdout + same.stderr
    (tmp_path / "ci.yaml").write_text(FILE + "set: {name: other}\n")
    other = trainyard(running_trainyard, *words, "--branch", "topic")
    assert other.returncode == 0 and "no green run of main yet" in other.stdout, "another pipeline is no baseline"
    (tmp_path / "ci.yaml").write_text(FILE + "set: {task.environment.WORSE: '1'}\n")
    worse = trainyard(running_trainyard, *words, "--branch", "topic")
    assert worse.returncode == 1, worse.stdout + worse.stderr
    assert "worse by 1" in summary.read_text() and summary.read_text().startswith("### Red")
    failure = next(ElementTree.parse(report).iter("failure"))
    assert "the baseline's" in str(failure.get("message"))
    listed = json.loads(trainyard(running_trainyard, "runs", "--tag", "ci:main:green", "--json").stdout)
    assert len(listed["items"] if isinstance(listed, dict) else listed) == 6
    (tmp_path / "learn.py").write_text("raise SystemExit(3)")
    broken = trainyard(running_trainyard, *words, "--branch", "topic")
    assert broken.returncode == 1 and "Seed 0 is FAILED" in broken.stdout
