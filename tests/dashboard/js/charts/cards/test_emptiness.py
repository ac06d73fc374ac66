"""Why a plot has no line, in words."""

from __future__ import annotations

import pytest

from tests.dashboard.js.conftest import Ask


@pytest.mark.parametrize(
    ("spans", "num_bad", "is_log", "words"),
    [
        ([[1, 2]], 0, True, ""),
        ([[-2, -1]], 0, False, ""),
        ([[-2, 0], [-5, -1]], 0, True, "no value is above zero, as log y needs"),
        ([[-2, 0], [-5, 1]], 3, True, ""),
        ([], 0, False, "no points yet"),
        ([[None, None]], 4, False, "no value here is a number"),
        ([[-1.7e308, 0], [0, 1.7e308]], 0, False, "these values are too far apart for one axis"),
    ],
)
def test_it_is_said_why_there_is_no_line(
    spans: list[list[float | None]], num_bad: int, is_log: bool, words: str, ask: Ask
) -> None:
    function = """({whyEmpty}, [spans, numBad, isLog]) => {
        const rows = spans.map(([min, max]) => ({order: {min: min ?? NaN, max: max ?? NaN}}));
        return whyEmpty(rows, numBad, isLog);
    }"""
    assert ask("charts/cards/emptiness.js", function, [spans, num_bad, is_log]) == words
