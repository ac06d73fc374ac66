"""The cells of the heat map: which one is meant, its colour, and its words."""

from __future__ import annotations

from typing import Any

from tests.dashboard.js.conftest import Ask

MODULE = "ranks/cells.js"


def grid(**changes: Any) -> dict[str, Any]:
    ranks = [{"rank": 0, "node": "node-a"}, {"rank": 1, "node": "node-b"}]
    return {"first_step": 8, "width": 4, "ranks": ranks, "microseconds": [[1000, 2000], [None, 4000]], **changes}


def test_a_place_in_the_plot_means_the_cell_below_it_and_never_one_outside(ask: Ask) -> None:
    places = [[8, 0], [11.9, 0.4], [12, 1.2], [-5, -1], [99, 9]]
    cells = ask(MODULE, "({cellAt}, [grid, places]) => places.map(([x, y]) => cellAt(grid, x, y))", [grid(), places])
    assert [(one["column"], one["row"]) for one in cells] == [(0, 0), (0, 0), (1, 1), (0, 0), (1, 1)]
    empty = grid(ranks=[], microseconds=[])
    assert ask(MODULE, "({cellAt}, grid) => cellAt(grid, 1, 1)", empty) is None


def test_a_cell_is_described_with_rank_node_steps_and_time(ask: Ask) -> None:
    words = ask(
        MODULE, "({wordsOf}, grid) => [wordsOf(grid, {column: 0, row: 1}), wordsOf(grid, {column: 1, row: 1})]", grid()
    )
    assert words == [
        "rank 1 on node-b · mean of steps 8 to 11 · no measure",
        "rank 1 on node-b · mean of steps 12 to 15 · 4 ms",
    ]
    assert ask(MODULE, "({wordsOf}, grid) => wordsOf(grid, {column: 0, row: 0})", grid(width=1)) == (
        "rank 0 on node-a · step 8 · 1 ms"
    )


def test_the_colours_run_between_almost_all_times(ask: Ask) -> None:
    many = [[1000 + at for at in range(100)] + [900_000]]
    scale = ask(MODULE, "({scaleOf}, grid) => scaleOf(grid)", grid(microseconds=many, ranks=[{"rank": 0, "node": ""}]))
    assert scale == {"low": 1002, "high": 1252.5}
    shades = ask(MODULE, "({shadesOf}, grid) => [...shadesOf(grid, {low: 1000, high: 4000})]", grid())
    assert shades == [0, 85, -1, 255]


def test_as_many_rows_have_a_number_as_there_is_room_for(ask: Ask) -> None:
    rows = ask(
        MODULE, "({labelledRows}) => [labelledRows(3, 60, 12), labelledRows(512, 480, 12), labelledRows(0, 9, 9)]"
    )
    assert rows[0] == [0, 1, 2]
    assert rows[1][:3] == [0, 16, 32] and rows[2] == []
