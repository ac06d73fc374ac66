import ast
import sys
from pathlib import Path

import pytest

from dashboard.setup import python
from dashboard.setup.steps import ROOT, SetupError


@pytest.mark.parametrize(
    ("version", "supported"),
    [((3, 10, 9), False), ((3, 11, 0), True), ((3, 14, 1), True), ((3, 15), False), ((2, 7), False)],
)
def test_supported_versions(version: tuple[int, ...], supported: bool) -> None:
    assert python.is_supported(version) is supported


def test_the_version_of_this_python() -> None:
    assert python.version_of(sys.executable) == tuple(sys.version_info[:3])


def test_a_name_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    shim = tmp_path / "python3.12"
    shim.write_text("#!/bin/sh\necho 'pyenv: python3.12: command not found' >&2\nexit 127\n")
    shim.chmod(0o755)
    assert python.version_of(str(shim)) is None


def test_no_supported_python_is_said_in_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError, match=r"needs Python 3\.11 to 3\.14 and found 3\."):
        python.find_supported()


@pytest.mark.parametrize("path", sorted((ROOT / "dashboard/setup").glob("*.py")), ids=lambda path: path.name)
def test_an_old_python_can_read_the_set_up_and_say_what_it_needs(path: Path) -> None:
    source = path.read_text()
    ast.parse(source, feature_version=(3, 7))
    assert path.name == "__init__.py" or "from __future__ import annotations" in source


@pytest.fixture
def venv(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file that says where a `.venv` of this Python was made."""
    monkeypatch.setattr(python, "VENV_PYTHON", Path(sys.executable))
    monkeypatch.setattr(python, "PLACE", tmp_path / "place")
    python.PLACE.write_text(str(ROOT))
    return python.PLACE


def test_a_venv_made_here_is_kept(venv: Path) -> None:
    assert python.is_usable_venv() is True


def test_a_venv_that_was_moved_is_made_anew(venv: Path) -> None:
    venv.write_text("/somewhere/else")
    assert python.is_usable_venv() is False


def test_a_venv_of_another_python_is_made_anew(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python, "version_of", lambda command: (3, 11, 99))
    assert python.is_usable_venv() is False
