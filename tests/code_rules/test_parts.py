"""`make test` runs the suite in parts: none of them may fail, or be forgotten, without being seen."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import pytest

from tests import parts
from tests.cast import Cast

Play = dict[str, parts.Tests]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Play:
    """Parts of one small test file each; what they are is written into them by their names."""
    bodies = {"good": "pass", "better": "import os; assert os.environ['WHAT'] == 'set'", "bad": "assert False, 'alas'"}
    found = {}
    for name, body in bodies.items():
        (tmp_path / f"test_{name}.py").write_text(f"def test_it() -> None:\n    {body}\n")
        options = ["-c", os.devnull, "--rootdir", str(tmp_path), "-p", "no:cacheprovider"]
        changes = {"WHAT": "set", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        found[name] = parts.Tests(options, [f"test_{name}.py"], changes)
    monkeypatch.setattr(parts, "ROOT", tmp_path)
    return found


def test_a_part_that_fails_or_collects_nothing_fails_all_of_it_and_is_named(
    play: Play, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_empty.py").touch()
    play["empty"] = play["good"]._replace(folders=["test_empty.py"])
    assert parts.main(play) == 1
    lines = capfd.readouterr().out.splitlines()
    assert lines[-1] in ("Failed: bad, empty", "Failed: empty, bad")
    assert sum("assert False" in line and line.startswith("bad ") for line in lines), "what it said first"
    assert sum("assert False" in line and line.startswith("bad, again") for line in lines), "and alone"
    named = next(place for place, line in enumerate(lines) if line.startswith("FAILED "))
    assert "test_bad.py::test_it" in lines[named]
    assert named > max(place for place, line in enumerate(lines) if line.startswith("bad ")), "where nobody scrolls"
    assert lines[-2].startswith("== 2 passed, 1 failed in ") or lines[-2].startswith("== 1 failed, 2 passed in ")
    closings = [line for line in lines if parts.CLOSING.match(line)]
    assert len(closings) == 5, "one for each part and one for all"


def test_what_passes_alone_is_named_and_fails_nothing(
    play: Play, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_bad.py").write_text(
        "from pathlib import Path\n\n\ndef test_it() -> None:\n    again = Path(__file__).with_name('again')\n"
        "    was = again.exists()\n    again.touch()\n    assert was, 'alas'\n\n\ndef test_other() -> None:\n    pass\n"
    )
    assert parts.main({"bad": play["bad"]}) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[-1].startswith("== 2 passed")
    assert any(line.startswith("UNSTEADY, it passed alone: FAILED test_bad.py::test_it") for line in lines)


FILES = [path.relative_to(parts.ROOT) for path in (parts.ROOT / "tests").rglob("test_*.py")]
OWN_TARGETS = [word.removeprefix("--ignore=") for word in (*parts.NEVER, *parts.ALONE)]
MAY_SHARE = (*parts.SHARING, "tests/browser", "tests/runs", "tests/workers")  # tests/conftest.py refuses it elsewhere


@pytest.mark.parametrize("is_extended", [False, True])
def test_every_test_is_in_one_part_or_has_a_target_of_its_own(is_extended: bool) -> None:
    group = parts.EXTENDED if is_extended else parts.PARTS
    alone = OWN_TARGETS if is_extended else [word.removeprefix("--ignore=") for word in parts.NEVER]
    for path in FILES:
        for is_whole in (False, True) if lies_in(path, MAY_SHARE) else (False,):
            found = chosen(group, path, {"whole": is_whole, "extended": is_extended})
            assert len(found) == (0 if lies_in(path, alone) else 1), (path, is_whole, found)
    makefile = (parts.ROOT / "Makefile").read_text()
    assert [target for target in OWN_TARGETS if target not in makefile] == []


def chosen(group: Play, path: Path, marks: dict[str, bool]) -> list[str]:
    """The names of the parts that collect a test of the file with these markers."""
    return [
        name
        for name, (options, folders, _) in group.items()
        if lies_in(path, folders)
        and not lies_in(path, [word.removeprefix("--ignore=") for word in options[2:]])
        and eval(options[1], {}, marks)
    ]


def lies_in(path: Path, places: Collection[str]) -> bool:
    return any(path.is_relative_to(place) for place in places)


def test_what_has_a_database_runs_on_both_whatever_folder_is_new() -> None:
    first, second = parts.DATABASE.values()
    assert [one.changes for one in (first, second)] == [{"TRAINYARD_TEST_DATABASE": "postgresql"}] * 2
    assert first.options == second.options[:2] == ["-m", "django_db and not whole"], "what is extended on SQLite too"
    assert second.folders == parts.PARTS["runs"].folders == ["tests/runs"]
    assert second.options[2:] == [f"--ignore={folder}" for folder in first.folders]
    assert parts.GROUPS["extended"] == {**parts.EXTENDED, **parts.DATABASE}
    quick = [part.options[1] for part in parts.GROUPS["database"].values()]
    assert quick == ["django_db and not whole and not extended"] * 2, "what is extended runs on it in `make test-all`"
    assert [part.options[2:] for part in parts.GROUPS["database"].values()] == [first.options[2:], second.options[2:]]


def test_a_test_with_a_database_is_marked_though_a_fixture_alone_asks_for_it(
    cast: Cast, request: pytest.FixtureRequest
) -> None:
    """By it the part on PostgreSQL is chosen."""
    marker = request.node.get_closest_marker("django_db")
    assert marker is not None and marker.kwargs["databases"] == "__all__"
