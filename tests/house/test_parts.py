"""`make test` runs the suite in parts: none of them may fail, or be forgotten, without being seen."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import parts


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Three parts of one small test file each; what they are is written into them by their names."""
    bodies = {"good": "pass", "better": "import os; assert os.environ['WHAT'] == 'set'", "bad": "assert False, 'alas'"}
    found: dict[str, tuple[list[str], dict[str, str]]] = {}
    for name, body in bodies.items():
        (tmp_path / f"test_{name}.py").write_text(f"def test_it() -> None:\n    {body}\n")
        words = ["-c", os.devnull, "-p", "no:cacheprovider", str(tmp_path / f"test_{name}.py")]
        found[name] = (words, {"WHAT": "set", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    monkeypatch.setattr(parts, "PARTS", found)
    return found


def test_a_part_that_fails_fails_all_of_it_and_is_named(
    play: dict[str, tuple[list[str], dict[str, str]]], capfd: pytest.CaptureFixture[str]
) -> None:
    assert parts.main() == 1
    lines = capfd.readouterr().out.splitlines()
    assert lines[-1] == "Failed: bad"
    assert any("alas" in line for line in lines)
    named = next(place for place, line in enumerate(lines) if line.startswith("FAILED "))
    assert "test_bad.py::test_it" in lines[named]
    assert named > max(place for place, line in enumerate(lines) if line.startswith("bad ")), "where nobody scrolls"
    assert lines[-2].startswith("== 2 passed, 1 failed in ") or lines[-2].startswith("== 1 failed, 2 passed in ")
    closings = [line for line in lines if parts.CLOSING.match(line)]
    assert len(closings) == 4, "one for each part and one for all"


def test_parts_that_pass_pass(
    play: dict[str, tuple[list[str], dict[str, str]]], capfd: pytest.CaptureFixture[str]
) -> None:
    del play["bad"]
    assert parts.main() == 0
    assert capfd.readouterr().out.splitlines()[-1].startswith("== 2 passed in ")


def test_a_part_that_collects_nothing_fails(play: dict[str, tuple[list[str], dict[str, str]]], tmp_path: Path) -> None:
    (tmp_path / "test_bad.py").write_text("")
    assert parts.main() == 1


def test_every_test_but_those_of_parity_and_quality_is_in_one_of_the_parts() -> None:
    """By how they are told apart, and not by a list: what is whole, what is not, in tests/runs and elsewhere."""
    words = [words for words, changes in parts.PARTS.values() if not changes]
    others = ["-m", "not whole", "--ignore=tests/runs", "--ignore=tests/parity", "--ignore=tests/quality"]
    assert words == [["-m", "whole"], others, ["-m", "not whole", "tests/runs"]]
