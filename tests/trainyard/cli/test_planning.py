"""`trainyard plan`: what a spec would cost, with nothing launched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runs.models import Run
from tests.cast import Cast, make_node
from tests.trainyard.command import Trainyard

pytestmark = pytest.mark.usefixtures("valkey")
RECIPE = "name: hello\ntask: {recipe: language-model}\n"


def test_plan_says_what_a_spec_would_cost_and_launches_nothing(
    trainyard: Trainyard, cast: Cast, tmp_path: Path
) -> None:
    for _ in range(2):
        make_node(cast.cluster, inventory={"cpu": {"count": 4}, "memory_bytes": 2**33, "hostname": "box"})
    (tmp_path / "run.yaml").write_text(RECIPE)
    words = ("plan", str(tmp_path / "run.yaml"), "--set", "resources.nodes=2")
    ended = trainyard(*words)
    assert ended.code == 0 and not Run.objects.exists()
    assert "speeds     assumed: nobody has measured this cluster" in ended.out
    assert "ranks     base" in ended.out and "2 from 0" in ended.out and "--set parallel." in ended.out
    answer = json.loads(trainyard(*words, "--json", "--count", "1").out)
    assert len(answer["estimate"]["memory"]) == 2 and len(answer["proposals"]) == 1


def test_a_plan_of_a_script_is_exit_code_2(trainyard: Trainyard, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("name: mine\ntask: {script: train.py}\n")
    ended = trainyard("plan", str(tmp_path / "run.yaml"))
    assert ended.code == 2 and "task: is nothing that the planner knows" in ended.err
