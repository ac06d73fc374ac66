"""Rows of a logged table: their order, and the file that they become."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from tests.dashboard.js.conftest import Ask

MODULE = "media/views/rows.js"


@pytest.mark.parametrize(
    ("column", "way", "found"),
    [
        ([3, None, 1, "b", "a10", "a2"], False, [1, 3, "a2", "a10", "b", None]),
        ([3, None, 1, "b", "a10", "a2"], True, [3, 1, "b", "a10", "a2", None]),
        ([True, False, True], False, [False, True, True]),
    ],
)
def test_a_column_sorts_numbers_then_texts_and_nothing_last(
    column: list[Any], way: bool, found: list[Any], ask: Ask
) -> None:
    rows = [[value] for value in column]
    assert ask(MODULE, "({sorted}, [rows, way]) => sorted(rows, 0, way)", [rows, way]) == [[value] for value in found]


def test_equal_rows_keep_their_order(ask: Ask) -> None:
    rows = [[1, "first"], [0, "zero"], [1, "second"]]
    found = ask(MODULE, "({sorted}, rows) => sorted(rows, 0, true)", rows)
    assert [row[1] for row in found] == ["first", "second", "zero"]


def test_the_file_holds_each_cell_as_it_is(ask: Ask) -> None:
    rows = [["a,b", 'say "so"', -1.5, True, None], ["two\nlines", "", 0, False, "x"]]
    text = ask(MODULE, "({csv}, rows) => csv(['<b>', 'c', 'd', 'e', 'f'], rows)", rows)
    assert list(csv.reader(io.StringIO(text))) == [
        ["<b>", "c", "d", "e", "f"],
        ["a,b", 'say "so"', "-1.5", "true", ""],
        ["two\nlines", "", "0", "false", "x"],
    ]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-cmd", "@SUM(A1)", "\tx", "\rx"])
def test_a_spreadsheet_does_not_run_a_cell(text: str, ask: Ask) -> None:
    assert ask(MODULE, "({csv}, rows) => csv(['a'], rows)", [[text]]).split("\n", 1)[1].lstrip('"').startswith("'")
