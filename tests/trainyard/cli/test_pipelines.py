"""`trainyard ci`: what its file may say, whose runs are compared, and reports."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from xml.etree import ElementTree

import pytest

from runs.models import Run
from tests.cast import Cast
from tests.trainyard.command import Trainyard
from trainyard.cli import launching, pipelines
from trainyard.cli.pipelines import (
    REQUESTS,
    Finding,
    Pipeline,
    Trained,
    _judge,
    _lost,
    junit,
    markdown,
    read_pipeline,
    this_branch,
)
from trainyard.spec import SpecError

FILE = "spec: train.yaml\nmetric: eval/loss\nbaseline: {branch: main}\n"


def pipeline(tmp_path: Path, text: str) -> Pipeline:
    (tmp_path / "ci.yaml").write_text(text)
    return read_pipeline(tmp_path / "ci.yaml")


def test_a_file_says_what_to_train_and_what_to_compare(tmp_path: Path) -> None:
    asked = pipeline(tmp_path, FILE)
    assert (asked.runs, asked.alpha, asked.find, asked.better, asked.seed) == (18, 0.05, 1.0, "lower", "train.seed")


@pytest.mark.parametrize(("text", "path", "words"), [
    ("metric: a\nbaseline: {branch: main}\n", "spec", "is required"),
    (FILE + "runs: 0\n", "runs", "1"),
    (FILE + "alpha: 0.001\n", "alpha", "0.01"),
    (FILE + "better: more\n", "better", "must be lower or higher"),
    (FILE + "metrics: [a]\n", "metrics", "accepted here: spec, metric"),
    (FILE.replace("branch: main", ""), "baseline", "one of the two"),
    (FILE.replace("branch: main", "branch: main, runs: [a]"), "baseline", "one of the two"),
])  # fmt: skip
def test_each_mistake_names_its_field(tmp_path: Path, text: str, path: str, words: str) -> None:
    with pytest.raises(SpecError) as refused:
        pipeline(tmp_path, text)
    (problem,) = refused.value.errors
    assert problem.path == path and words in problem.message


@pytest.mark.usefixtures("valkey")
def test_a_named_run_without_the_metric_is_refused_before_anything_trains(
    trainyard: Trainyard, cast: Cast, make_run: Callable[..., Run], tmp_path: Path
) -> None:
    run = make_run()
    (tmp_path / "train.yaml").write_text("name: hello\ntask: {recipe: language-model}\n")
    (tmp_path / "ci.yaml").write_text(FILE.replace("branch: main", f"runs: [{run.pk}]"))
    ended = trainyard("ci", str(tmp_path / "ci.yaml"), "--branch", "mine")
    assert ended.code == 2 and f"{run.pk}: there is no value of eval/loss" in ended.err
    assert Run.objects.count() == 1


def test_the_branch_is_the_services_or_gits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME", "CHANGE_BRANCH", "BRANCH_NAME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SpecError, match="no Git repository"):
        this_branch()
    monkeypatch.setenv("CI_COMMIT_REF_NAME", "topic")
    assert this_branch() == "topic"


def test_reports_name_each_seed_and_what_was_found(tmp_path: Path) -> None:
    asked = pipeline(tmp_path, FILE)
    good: Any = {"id": "abc", "status": "SUCCEEDED", "reason": {"sentence": ""}}
    bad: Any = {"id": "def", "status": "FAILED", "reason": {"sentence": "Out of memory."}}
    red = Finding(False, "eval/loss is 3, the baseline's 2.")
    suite = ElementTree.fromstring(junit(asked, [Trained(0, good, 3.0)], red))
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [one.get("message") for one in suite.iter("failure")] == [red.sentence]
    lost = ElementTree.fromstring(junit(asked, [Trained(0, good, 3.0), Trained(1, bad, None)], red))
    assert [one.get("message") for one in lost.iter("failure")] == ["Seed 1 is FAILED. Out of memory."]
    assert "| 0 | abc | SUCCEEDED | 3 |" in markdown(asked, [Trained(0, good, 3.0)], [2.0], red)


def test_reports_hold_no_controls_and_no_row_is_broken(tmp_path: Path) -> None:
    asked = pipeline(tmp_path, FILE.replace("eval/loss", r'"a|b\e"'))
    words = "\x1b[31mValueError\x1b[0m: a|b\nat\x00 \ufffe\ud800 line 3"
    bad: Any = {"id": "d|ef", "status": "FAILED", "reason": {"sentence": words}}
    trained = [Trained(0, bad, None)]
    red = Finding(False, _lost(trained[0], asked))
    suite = ElementTree.fromstring(junit(asked, trained, red))
    said = "Seed 0 is FAILED. ValueError: a|b at \ufffd\ufffd line 3"
    assert [one.get("message") for one in suite.iter("failure")] == [said]
    assert suite[1].get("name") == "a|b is not worse"
    lines = markdown(asked, trained, [], red).splitlines()
    assert lines[:3] == [r"### Red: a\|b", "", said.replace("|", r"\|")] and r"| 0 | d\|ef | FAILED | none |" in lines
    assert "\x1b" not in ElementTree.tostring(ElementTree.fromstring(junit(asked, [], red))).decode()


@pytest.mark.parametrize(("named", "is_one"), [
    ({"GITHUB_EVENT_NAME": "pull_request"}, True),
    ({"GITHUB_EVENT_NAME": "pull_request_target"}, True),
    ({"GITHUB_HEAD_REF": "main", "GITHUB_REF_NAME": "7/merge"}, True),
    ({"CI_MERGE_REQUEST_IID": "7", "CI_COMMIT_REF_NAME": "main"}, True),
    ({"CI_EXTERNAL_PULL_REQUEST_IID": "7"}, True),
    ({"CHANGE_ID": "7", "CHANGE_BRANCH": "main"}, True),
    ({"GITHUB_EVENT_NAME": "push", "GITHUB_HEAD_REF": "", "GITHUB_REF_NAME": "main"}, False),
    ({"CI_COMMIT_REF_NAME": "main"}, False),
    ({}, False),
])  # fmt: skip
def test_no_run_of_a_request_becomes_the_green_one_of_a_branch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, named: dict[str, str], is_one: bool
) -> None:
    for name in (*REQUESTS, "GITHUB_EVENT_NAME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in named.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "ci.yaml").write_text(FILE)
    client = Mock(**{"run_document.return_value": {"tags": ["ci:main"]}})
    run: Any = {"id": "abc", "status": "SUCCEEDED", "reason": {"sentence": ""}}
    monkeypatch.setattr(launching, "read_spec", lambda *_: (None, None, None))
    monkeypatch.setattr(pipelines, "baseline_values", lambda *_: [])
    monkeypatch.setattr(pipelines, "_train", lambda *_: ([Trained(0, run, 1.0)], Finding(True, "As good.")))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    asked = argparse.Namespace(file=str(tmp_path / "ci.yaml"), branch="main", junit="", markdown="")
    assert pipelines.ci(client, asked, Mock()) == 0
    tags = [call.kwargs["json"]["tags"] for call in client.call.call_args_list]
    assert tags == ([] if is_one else [["ci:main", "ci:main:green"]])
    said = _judge([1.0], [], pipeline(tmp_path, FILE), 1, 1).sentence
    assert said.endswith("nothing to compare with." if is_one else "these are its first.")
