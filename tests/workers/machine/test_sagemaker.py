"""What the container of a training job starts, without SageMaker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from workers.machine import sagemaker


def config(root: Path, text: str) -> None:
    (root / "input" / "config").mkdir(parents=True)
    (root / "input" / "config" / "resourceconfig.json").write_text(text)


def test_a_machine_is_numbered_by_the_names_of_all(tmp_path: Path) -> None:
    config(tmp_path, json.dumps({"current_host": "algo-2", "hosts": ["algo-3", "algo-1", "algo-2"], "more": 1}))
    assert sagemaker.machine_in(tmp_path) == 1


@pytest.mark.parametrize("text", ["", "[]", '{"current_host": "algo-9", "hosts": ["algo-1"]}'])
def test_a_machine_that_is_not_known_says_so(tmp_path: Path, text: str) -> None:
    config(tmp_path, text)
    with pytest.raises(sagemaker.NotInAJob, match=r"resourceconfig\.json"):
        sagemaker.machine_in(tmp_path)


def test_what_is_not_reached_becomes_the_failure_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAGEMAKER_BASE_DIR", str(tmp_path))
    assert sagemaker.main(["try", "http://127.0.0.1:9", "127.0.0.1:9"]) == 1
    words = (tmp_path / "output" / "failure").read_text()
    assert "server: " in words and "Valkey: " in words and "folder: " in words
