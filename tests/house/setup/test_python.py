import sys
from pathlib import Path

import pytest

from dashboard.setup import python
from dashboard.setup.steps import SetupError


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
