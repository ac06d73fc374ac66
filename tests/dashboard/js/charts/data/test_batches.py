"""How what is wanted of many runs is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboard.js.conftest import Ask

BATCHES = """({batches, addressOf}, [due, points, lines]) =>
    batches(new Map(due.map(([run, names]) => [run, new Set(names)])), points, () => lines)
        .map(({runs, names, points}) => [runs, names, points])"""
HALVES = "({halves}, batch) => halves(batch)"
ADDRESS = "({addressOf}, batch) => addressOf(batch)"


def asked(ask: Ask, due: dict[str, list[str]], points: int = 1500, lines: int = 1) -> list[Any]:
    found: list[Any] = ask("charts/data/batches.js", BATCHES, [list(due.items()), points, lines])
    return found


def test_runs_that_lack_the_same_names_share_a_request(ask: Ask) -> None:
    found = asked(ask, {"a": ["x", "y"], "b": ["y", "x"], "c": ["x"], "d": []})
    assert found == [[["a", "b"], ["x", "y"], 1500], [["c"], ["x"], 1500]]


@pytest.mark.parametrize(
    ("num_runs", "num_names", "points", "lines"),
    [(1, 500, 600, 1), (50, 40, 600, 1), (250, 3, 600, 1), (1, 100, 1500, 8)],
)
def test_no_request_is_larger_than_an_answer(num_runs: int, num_names: int, points: int, lines: int, ask: Ask) -> None:
    names = [f"train/{number}" for number in range(num_names)]
    found = asked(ask, {f"run{number}": names for number in range(num_runs)}, points, lines)
    for runs, some, _ in found:
        assert (len(runs) <= 100, len(some) <= 200, len(runs) * len(some) * points * lines <= 400_000) == (
            True,
            True,
            True,
        )
    pairs = [(run, name) for runs, some, _ in found for run in runs for name in some]
    assert len(pairs) == len(set(pairs)) == num_runs * num_names


def test_names_as_long_as_pages_do_not_make_an_address_too_long(ask: Ask) -> None:
    found = asked(ask, {"a": [f"{number}" + "é" * 1000 for number in range(10)]})
    assert sum(len(names) for _, names, _ in found) == 10
    assert max(len(names) for _, names, _ in found) == 1


def test_what_is_refused_as_too_much_is_asked_for_in_halves(ask: Ask) -> None:
    batch = {"runs": ["a", "b"], "names": ["x", "y", "z"], "points": 600}
    assert [one["names"] for one in ask("charts/data/batches.js", HALVES, batch)] == [["x", "y"], ["z"]]
    assert [one["runs"] for one in ask("charts/data/batches.js", HALVES, {**batch, "names": ["x"]})] == [["a"], ["b"]]
    single = {"runs": ["a"], "names": ["x"], "points": 600}
    assert ask("charts/data/batches.js", HALVES, single) == [{**single, "points": 300}]
    assert ask("charts/data/batches.js", HALVES, {**single, "points": 16}) == [], "it ends"


def test_an_address_says_which_window(ask: Ask) -> None:
    batch = {"runs": ["a"], "names": ["train/loss & more"], "points": 10}
    address = "/api/v1/series/data?run=a&name=train%2Floss+%26+more"
    assert ask("charts/data/batches.js", ADDRESS, batch) == f"{address}&points=10&attempts=all"
    window = {"axis": "relative", "from": -1.5, "to": 2}
    assert f"{address}&x=relative&from=-1.5&to=2&" in ask(
        "charts/data/batches.js", ADDRESS, {**batch, "window": window}
    )
