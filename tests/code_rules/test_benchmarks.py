"""`make bench`: each benchmark gives rows, each goal has a row, and RESULTS.md keeps what was measured."""

import ast
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from benchmarks import __main__ as runner
from benchmarks import compare, goals, results, table
from benchmarks.table import AT_LEAST, AT_MOST, Goal, Row

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks"
GOALS = sorted(name for name, value in vars(goals).items() if isinstance(value, Goal))
DOC = (ROOT / "docs/decisions/benchmarks.md").read_text()


def row(**changes: object) -> Row:
    values: dict[str, object] = {"what": "a call", "ours": 2.0, "unit": "us", "theirs": 14.0, "against": "Trackio"}
    return Row(**{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", runner.names())
def test_a_benchmark_says_what_it_measures_and_gives_rows(name: str) -> None:
    module = ast.parse((ROOT / (runner.modules()[name].replace(".", "/") + ".py")).read_text())
    assert ast.get_docstring(module)
    assert "rows" in [node.name for node in module.body if isinstance(node, ast.FunctionDef)]


@pytest.mark.parametrize("goal", GOALS)
def test_a_goal_is_measured_by_a_row_and_explained(goal: str) -> None:
    assert any(f"goals.{goal}" in path.read_text() for path in FOLDER.rglob("bench_*.py"))
    assert f"`{goal}`" in DOC


def test_the_peers_are_driven_by_a_script_each() -> None:
    scripts = {path.stem for path in (FOLDER / "peers").glob("*.py")} - {"__init__", "drive"}
    assert scripts == set(compare.TITLES) == set(compare.CALLS) == set(compare.STEPS)


@pytest.mark.parametrize(
    ("goal", "is_met"),
    [
        (Goal(AT_MOST, 2), True),
        (Goal(AT_MOST, 1.9), False),
        (Goal(AT_LEAST, 7, of="ratio"), True),
        (Goal(AT_LEAST, 7.1, of="ratio"), False),
        (None, None),
    ],
)
def test_a_row_says_whether_its_goal_is_met(goal: Goal | None, is_met: bool | None) -> None:
    assert row(goal=goal).is_met is is_met


def test_what_was_not_measured_meets_no_goal_and_is_named() -> None:
    alone = row(theirs=None, goal=Goal(AT_LEAST, 5, of="ratio"), others={"MLflow": None})
    assert alone.is_met is False
    assert table.cells(alone)[5:9] == ["Trackio", "not measured", "", "MLflow not measured"]


def test_one_benchmark_replaces_its_own_rows_alone(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    for name, ours in (("log", 2.0), ("chart", 3.0), ("log", 4.0)):
        found = results.result(name, [row(ours=ours, note="a | b")], before=results.Load(3.0, 0.5), seconds=3)
        results.write({name: found}, path)
    lines = [line for line in path.read_text().splitlines() if line.startswith(("| log ", "| chart "))]
    assert [re.split(r" \| ", line)[2] for line in lines[:2]] == ["3.00 us", "4.00 us"]
    assert len(lines) == 4  # a row and a line about when and where for each
    assert len({line.count("|") for line in lines[:2]}) == 1


def test_a_peer_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(compare, "PEERS_PYTHON", tmp_path / "python")
    answers = compare.measure("cost", {"trackio": 10, "mlflow": 10})
    assert answers.best("median") == ("no peer could be measured", None)
    assert answers.of("median") == {"Trackio": None, "MLflow": None}
    assert "MLflow not measured: not installed" in answers.note


def test_a_peer_that_hangs_is_ended_with_its_servers() -> None:
    server = "import time; time.sleep(60)"
    script = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {server!r}], "
    script += "start_new_session=True).pid, flush=True); sys.stdin.read()"
    hung = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert hung.stdout is not None
    pid = int(hung.stdout.readline())
    compare.end_with_children(hung)
    assert hung.returncode == -signal.SIGKILL
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
