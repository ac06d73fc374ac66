"""Columns of values as the arithmetic of charts has them."""

from __future__ import annotations

import pytest

from tests.dashboard.js.conftest import Ask

NAN, INFINITY = float("nan"), float("inf")
PLOTTABLE = """({plottable}, [column, isLog]) => {
    const before = Float64Array.from(column);
    const found = plottable(before, isLog);
    return [[...found].map(String), found === before, [...before].map(String)];
}"""


def test_what_cannot_be_drawn_is_a_gap(ask: Ask) -> None:
    values = [1, INFINITY, -INFINITY, NAN, 0, -2]
    words = ["1", "Infinity", "-Infinity", "NaN", "0", "-2"]
    found = ask("charts/lines/values.js", PLOTTABLE, [values, False])
    assert found == [["1", "NaN", "NaN", "NaN", "0", "-2"], False, words], "what it was made of is not written to"
    assert ask("charts/lines/values.js", PLOTTABLE, [values, True])[0] == ["1", "NaN", "NaN", "NaN", "NaN", "NaN"]


def test_a_column_that_needs_nothing_stays_the_array_it_is(ask: Ask) -> None:
    assert ask("charts/lines/values.js", PLOTTABLE, [[1, NAN, 3], True])[1] is True
    kept = "({nulled}, column) => nulled(Float64Array.from(column)) instanceof Float64Array"
    assert ask("charts/lines/values.js", kept, [1, 2]) is True


def test_for_a_plot_a_gap_is_null(ask: Ask) -> None:
    assert ask("charts/lines/values.js", "({nulled}, column) => nulled(Float64Array.from(column))", [1, NAN, 3]) == [
        1,
        None,
        3,
    ]


@pytest.mark.parametrize(
    ("lows", "highs", "extremes"),
    [
        ([3, NAN, 1], [3, NAN, 7], {"min": 1, "max": 7}),
        ([-INFINITY, 2], [INFINITY, 2], {"min": 2, "max": 2}),
        ([NAN], [NAN], None),
        ([], [], None),
    ],
)
def test_extremes_are_those_of_finite_values(lows: list[float], highs: list[float], extremes: object, ask: Ask) -> None:
    assert ask("charts/lines/values.js", "({extent}, [lows, highs]) => extent(lows, highs)", [lows, highs]) == extremes
