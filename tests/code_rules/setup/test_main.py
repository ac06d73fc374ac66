import subprocess
import sys
from pathlib import Path

import pytest

from dashboard.setup import __main__ as setup
from dashboard.setup import node

ROOT = Path(__file__).resolve().parents[3]


def test_words_after_the_dashes_are_the_command() -> None:
    words = ["--for", "tests", "--", "pytest", "--", "x"]
    assert setup.split_at_dashes(words) == (["--for", "tests"], ["pytest", "--", "x"])
    assert setup.split_at_dashes(["--for", "run"]) == (["--for", "run"], [])


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(SystemExit):
        setup.parse(["--for", "fun"])


def test_set_up_becomes_the_command_and_keeps_its_status() -> None:
    code = "import os, sys; print(float(os.environ['TRAINYARD_SETUP_SECONDS']) < 60); sys.exit(7)"
    words = ["-m", "dashboard.setup", "--", sys.executable, "-c", code]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "True"
    assert done.returncode == 7


@pytest.fixture
def finished(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A set-up for `check` that was finished with the digest `same`."""
    for module, name in ((setup, "STAMP"), (setup, "VENV_PYTHON"), (node, "STAMP")):
        path = tmp_path / f"{module.__name__}.{name}"
        path.touch()
        monkeypatch.setattr(module, name, path)
    setup.write_stamp("check", "same")


@pytest.mark.usefixtures("finished")
@pytest.mark.parametrize(("kind", "done"), [("run", True), ("check", True), ("tests", False)])
def test_a_set_up_holds_the_smaller_ones(kind: str, done: bool) -> None:
    assert setup.is_done(kind, "same") is done


@pytest.mark.usefixtures("finished")
def test_another_digest_means_again() -> None:
    assert setup.is_done("run", "other") is False


@pytest.mark.usefixtures("finished")
def test_a_deleted_node_modules_means_again() -> None:
    node.STAMP.unlink()
    assert setup.is_done("run", "same") is False


@pytest.mark.usefixtures("finished")
@pytest.mark.parametrize("text", ["", "{", "[]", '{"digest": "same"}', '{"digest": "same", "kind": "of old"}'])
def test_a_stamp_that_cannot_be_read_means_again(text: str) -> None:
    setup.STAMP.write_text(text)
    assert setup.is_done("run", "same") is False
