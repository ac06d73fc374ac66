"""The command line as a whole: its exit codes, each with one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trainyard.command import Trainyard

pytestmark = pytest.mark.usefixtures("valkey")


@pytest.mark.parametrize(
    "words", [["bogus"], ["show"], ["runs", "--limit", "0"], ["submit", "x", "--wait", "--follow"]]
)
def test_a_bad_command_line_is_exit_code_2(words: list[str], trainyard: Trainyard) -> None:
    assert trainyard(*words).code == 2


def test_a_run_that_is_not_there_is_exit_code_1(trainyard: Trainyard) -> None:
    for words in (["show", "nope"], ["stop", "a/b"], ["logs", "..%2f"], ["wait", "é"]):
        ended = trainyard(*words)
        assert ended.code == 1 and len(ended.err.splitlines()) == 1, words


def test_a_wrong_token_is_exit_code_3(trainyard: Trainyard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_TOKEN", "ty_wrong")
    ended = trainyard("runs")
    assert ended.code == 3 and len(ended.err.splitlines()) == 1


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"TRAINYARD_URL": "http://127.0.0.1:9"},
        {"TRAINYARD_URL": "http://127.0.0.1:9", "TRAINYARD_TOKEN": "x"},
        {"TRAINYARD_URL": "nonsense", "TRAINYARD_TOKEN": "x"},
    ],
    ids=str,
)
def test_no_server_is_exit_code_3_and_one_sentence(environment: dict[str, str], tmp_path: Path) -> None:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TRAINYARD_")}
    ended = subprocess.run(
        [sys.executable, "-m", "trainyard", "runs"],
        env={**inherited, "TRAINYARD_HOME": str(tmp_path), **environment},
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stdout) == (3, "")
    assert len(ended.stderr.splitlines()) == 1, ended.stderr


def test_a_program_imports_nothing_of_the_current_folder(tmp_path: Path) -> None:
    """It may be anybody's, /tmp for one, and root's programs are begun there too."""
    (tmp_path / "dashboard").mkdir()
    (tmp_path / "dashboard" / "__init__.py").write_text("raise SystemExit('a stranger was here')")
    begun = "import sys; sys.path.remove(''); from trainyard.cli.programs import become; become('restore', ['--help'])"
    done = subprocess.run([sys.executable, "-c", begun], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "restore" in done.stdout, done.stderr
