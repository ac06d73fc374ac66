"""`trainyard submit` and `wait`: a run from a file, or one line for each thing that is wrong with it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runs.models import Run, RunCode
from runs.values.status import Status
from tests.cast import Cast, make_node
from tests.spools import Spool, store
from tests.trainyard.command import Trainyard

pytestmark = pytest.mark.usefixtures("valkey")
RECIPE = "name: hello\ntask: {recipe: language-model}\n"


def test_submit_prints_the_id_alone(trainyard: Trainyard, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(RECIPE)
    ended = trainyard("submit", str(tmp_path / "run.yaml"), "--set", "train.steps=7", "--set", "tags=[a, b]")
    assert ended.code == 0 and ended.err == ""
    made = Run.objects.get(pk=ended.out.strip())
    assert made.spec["train"]["steps"] == 7 and made.tags == ["a", "b"]


def test_submit_prints_the_ids_of_an_array(trainyard: Trainyard, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(RECIPE)
    ended = trainyard("submit", str(tmp_path / "run.yaml"), "--set", "array.size=3")
    runs = list(Run.objects.order_by("number"))
    assert ended.code == 0 and ended.out.split() == [run.pk for run in runs]
    assert [run.spec["array"]["index"] for run in runs] == [0, 1, 2]


def test_submit_packs_and_sends_the_code_of_a_script(trainyard: Trainyard, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print()")
    (tmp_path / "weights.bin").write_bytes(os.urandom(4_000_000))  # more than Django takes for a form
    (tmp_path / "run.yaml").write_text("name: mine\ntask: {script: train.py, code: .}\n")
    ended = trainyard("submit", str(tmp_path / "run.yaml"))
    assert ended.code == 0 and "Sending 3 files, 4.0 MB" in ended.err
    assert Run.objects.get(pk=ended.out.strip()).spec["task"]["code"].keys() == {"sha256"}


def test_a_program_alone_is_a_run(trainyard: Trainyard, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print()")
    (tmp_path / "other.py").write_text("print()")
    ended = trainyard("submit", str(tmp_path / "train.py"), "--set", "task.arguments=[--lr, '3']")
    assert ended.code == 0 and "Sending 1 file," in ended.err
    run = Run.objects.get(pk=ended.out.strip())
    assert (run.name, run.spec["task"]["script"], run.spec["task"]["arguments"]) == ("train", "train.py", ["--lr", "3"])
    (tmp_path / "go").write_text("#!/bin/sh\n")
    (tmp_path / "go").chmod(0o755)
    run = Run.objects.get(pk=trainyard("submit", str(tmp_path / "go")).out.strip())
    assert run.spec["task"]["command"] == ["./go"]


def test_submit_sends_a_working_tree_as_commit_and_patch(trainyard: Trainyard, tmp_path: Path, settings: Any) -> None:
    settings.GIT_FILE_ROOTS = [str(tmp_path)]
    away, here = tmp_path / "away.git", tmp_path / "here"
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")

    def git(*words: str) -> str:
        return subprocess.run(["git", *identity, *words], check=True, capture_output=True, text=True).stdout.strip()

    git("init", "--quiet", "--bare", "--initial-branch=main", str(away))
    git("clone", "--quiet", str(away), str(here))
    (here / "src").mkdir()
    (here / "src" / "train.py").write_text("print(1)\n")
    (here / "run.yaml").write_text("name: mine\ntask: {script: train.py, code: src}\n")
    git("-C", str(here), "add", "--all")
    git("-C", str(here), "commit", "--quiet", "-m", "First")
    git("-C", str(here), "push", "--quiet", "origin", "HEAD:main")
    (here / "src" / "train.py").write_text("print(2)\n")
    (here / "src" / "new.py").write_text("")
    ended = trainyard("submit", "--git", str(here / "run.yaml"))
    assert ended.code == 0 and "Git does not track them: new.py" in ended.err, ended
    run = Run.objects.get(pk=ended.out.strip())
    asked = run.spec["task"]["code"]
    assert asked["git"] == away.as_uri() and asked["path"] == "src" and "+print(2)" in asked["patch"]
    assert RunCode.objects.get(run=run).commit == asked["revision"] == git("-C", str(here), "rev-parse", "HEAD")


@pytest.mark.parametrize(
    ("document", "words", "complaint"),
    [
        (RECIPE, ["--set", "train.steps=none"], 'train.steps: must be a whole number, not "none"'),
        (RECIPE, ["--set", "train.steps"], "--set takes PATH=VALUE"),
        (RECIPE, ["--set", "cluster=elsewhere"], "cluster: there is no cluster"),
        ("name: [", [], "run.yaml cannot be read"),
        ("5", [], "a spec is a map with a name and a task, not 5"),
        ("name: x\ntask: {script: other.py}\n", [], 'task.script: there is no file "other.py" in the code'),
        ("name: x\ntask: {script: a.py, code: nowhere}\n", [], "task.code: "),
    ],
)
def test_a_bad_spec_is_exit_code_2_and_one_line_for_each_problem(
    document: str, words: list[str], complaint: str, trainyard: Trainyard, tmp_path: Path
) -> None:
    (tmp_path / "run.yaml").write_text(document)
    ended = trainyard("submit", str(tmp_path / "run.yaml"), *words)
    assert (ended.code, ended.out) == (2, "")
    assert complaint in ended.err and len(ended.err.splitlines()) == 1
    assert not Run.objects.exists()


def test_the_complaint_is_that_of_the_api(trainyard: Trainyard, cast: Cast, tmp_path: Path) -> None:
    make_node(cast.cluster)
    (tmp_path / "run.yaml").write_text(RECIPE)
    ended = trainyard("submit", str(tmp_path / "run.yaml"), "--set", "resources.nodes=2")
    assert ended.code == 2
    assert ended.err.startswith("resources.nodes: 2 is more than this cluster has: 1 nodes")


def test_a_missing_file_is_exit_code_2(trainyard: Trainyard) -> None:
    ended = trainyard("submit", "/nowhere/run.yaml")
    assert (ended.code, ended.err) == (2, "/nowhere/run.yaml cannot be read: No such file or directory\n")


@pytest.mark.parametrize(
    ("status", "code"), [(Status.SUCCEEDED, 0), (Status.FAILED, 1), (Status.CANCELLED, 1), (Status.RUNNING, 1)]
)
def test_wait_succeeds_only_with_the_run(
    status: Status, code: int, trainyard: Trainyard, make_run: Callable[..., Run]
) -> None:
    ended = trainyard("wait", make_run(status=status).pk, "--timeout", "0")
    assert ended.code == code and ended.out == "" and status in ended.err


def test_what_machines_measured_is_not_told_to_whoever_waits_for_a_training(
    trainyard: Trainyard, make_run: Callable[..., Run]
) -> None:
    run = make_run(status=Status.SUCCEEDED, fence=1)
    spool = Spool()
    of_machine = spool.points([(1, 1.0, 9.0)], name="system/cpu_percent")
    store(run, of_machine + spool.points([(1, 1.0, 0.5)]))
    ended = trainyard("wait", run.pk, "--timeout", "0")
    assert "train/loss 0.5" in ended.err and "system/" not in ended.err
    assert "system/cpu_percent" in trainyard("show", run.pk).out
