"""`make test` runs the suite in parts: none of them may fail, or be forgotten, without being seen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import parts

Play = dict[str, parts.Tests]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Play:
    """Three parts of one small test file each; what they are is written into them by their names."""
    bodies = {"good": "pass", "better": "import os; assert os.environ['WHAT'] == 'set'", "bad": "assert False, 'alas'"}
    found = {}
    for name, body in bodies.items():
        (tmp_path / f"test_{name}.py").write_text(f"def test_it() -> None:\n    {body}\n")
        options = ["-c", os.devnull, "--rootdir", str(tmp_path), "-p", "no:cacheprovider"]
        changes = {"WHAT": "set", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        found[name] = parts.Tests(options, [f"test_{name}.py"], changes)
    monkeypatch.setattr(parts, "ROOT", tmp_path)
    return found


def test_a_part_that_fails_fails_all_of_it_and_is_named(play: Play, capfd: pytest.CaptureFixture[str]) -> None:
    assert parts.main(play) == 1
    lines = capfd.readouterr().out.splitlines()
    assert lines[-1] == "Failed: bad"
    assert sum("assert False" in line and line.startswith("bad ") for line in lines), "what it said first"
    assert sum("assert False" in line and line.startswith("bad, again") for line in lines), "and alone"
    named = next(place for place, line in enumerate(lines) if line.startswith("FAILED "))
    assert "test_bad.py::test_it" in lines[named]
    assert named > max(place for place, line in enumerate(lines) if line.startswith("bad ")), "where nobody scrolls"
    assert lines[-2].startswith("== 2 passed, 1 failed in ") or lines[-2].startswith("== 1 failed, 2 passed in ")
    closings = [line for line in lines if parts.CLOSING.match(line)]
    assert len(closings) == 4, "one for each part and one for all"


def test_a_part_that_collects_nothing_fails(play: Play, tmp_path: Path) -> None:
    (tmp_path / "test_bad.py").write_text("")
    assert parts.main(play) == 1


def test_what_passes_alone_is_named_and_fails_nothing(
    play: Play, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_bad.py").write_text(
        "from pathlib import Path\n\n\ndef test_it() -> None:\n    again = Path(__file__).with_name('again')\n"
        "    was = again.exists()\n    again.touch()\n    assert was, 'alas'\n\n\ndef test_other() -> None:\n    pass\n"
    )
    assert parts.main(play) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[-1].startswith("== 4 passed in ") or lines[-1].startswith("== 4 passed, ")
    assert any(line.startswith("UNSTEADY, it passed alone: FAILED test_bad.py::test_it") for line in lines)


NEVER = {"tests/parity", "tests/quality"}
ALONE = {
    "tests/chaos",
    "tests/security",
    "tests/whole/test_kubernetes.py",
    "tests/whole/test_ray.py",
    "tests/whole/test_sagemaker.py",
    "tests/whole/slurm",
    "tests/workers/containers/test_podman.py",
    "tests/workers/containers/test_registry.py",
    "tests/workers/containers/test_sessions.py",
    "tests/workers/containers/test_terminal_tab.py",
    "tests/whole/ssh",
    "tests/whole/test_sweeps.py",
    "tests/whole/test_population.py",
    "tests/whole/test_tls.py",
    "tests/whole/test_notebook.py",
}
APART = {"tests/browser", "tests/runs", "tests/workers", *NEVER}


def test_every_test_but_those_with_targets_of_their_own_is_in_one_of_the_parts() -> None:
    """Told apart by two markers and by folders, and not by a list."""
    assert chosen(parts.PARTS) == {
        "browser": ("not extended", set(), "tests/browser"),
        "training": ("not extended", set(), "tests/workers/training"),
        "workers": ("not extended", {"tests/workers/training"}, "tests/workers"),
        "runs": ("not extended", set(), "tests/runs"),
        "whole": ("whole and not extended", set(), "tests/whole", "tests/dashboard", "tests/chaos"),
        "others": ("not whole and not extended", APART, "tests"),
    }
    assert chosen(parts.EXTENDED) == {
        "browser": ("extended", set(), "tests/browser"),
        "whole": ("whole and extended", ALONE, "tests/whole"),
        "own stacks": ("not whole and extended", ALONE, "tests/whole"),
        "others": ("extended", {"tests/browser", "tests/whole", *ALONE, *NEVER}, "tests"),
    }


def test_what_has_a_database_runs_on_both_whatever_folder_is_new() -> None:
    first, second = parts.DATABASE.values()
    assert [one.changes for one in (first, second)] == [{"TRAINYARD_TEST_DATABASE": "postgresql"}] * 2
    assert first.options == second.options[:2] == ["-m", "django_db and not whole"], "what is extended on SQLite too"
    assert second.folders == parts.PARTS["runs"].folders == ["tests/runs"]
    assert second.options[2:] == [f"--ignore={folder}" for folder in first.folders]
    assert parts.GROUPS["extended"] == {**parts.EXTENDED, **parts.DATABASE}


def test_a_test_with_a_database_is_marked_though_a_fixture_alone_asks_for_it(request: pytest.FixtureRequest) -> None:
    """By it the part on PostgreSQL is chosen."""
    words = "-m pytest --collect-only -q -m django_db tests/runs/test_shards.py tests/runs/values/test_status.py"
    own = ("DJANGO_SETTINGS_MODULE", "TRAINYARD_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in own}
    done = subprocess.run(
        [sys.executable, *words.split()], cwd=request.config.rootpath, env=environment, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    assert "test_shards.py::test_runs_are_spread_evenly" in done.stdout, done.stderr or done.stdout
    assert "test_status.py::" not in done.stdout


def chosen(group: dict[str, parts.Tests]) -> dict[str, tuple[Any, ...]]:
    """Name to marker expression, ignored folders and folders, of the parts on SQLite."""
    return {
        name: (one.options[1], {word.removeprefix("--ignore=") for word in one.options[2:]}, *one.folders)
        for name, one in group.items()
        if not one.changes
    }
