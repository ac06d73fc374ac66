"""Where a line is broken because nothing was logged for long."""

from __future__ import annotations

import pytest

from tests.dashboard.js.conftest import Ask

GAPS = "({gapsIn}, [x, seams]) => gapsIn(Float64Array.from(x), seams)"
BROKEN = """({broken}, [x, value, min, gaps]) => {
    const [xs, values, mins] = [x, value, min].map((column) => column && Float64Array.from(column));
    const table = broken({x: xs, value: values, min: mins, max: mins}, gaps);
    return [[...table.x], [...table.value].map(String), table.min && [...table.min].map(String)];
}"""


@pytest.mark.parametrize(
    ("x", "gaps"),
    [
        ([1, 2, 3, 11, 12, 13], [2]),
        ([1, 2, 3, 10, 11, 12], []),  # seven times the usual is only rare
        ([1, 2, 3, 100, 200, 300], []),  # from there on, every hundredth is logged
        ([1, 2, 3, 4, 100, 200, 201, 202, 203], [3, 4]),  # a point alone between two gaps
        ([1, 100], []),
        ([5], []),
        ([], []),
        ([1, 2, 3, 4, 5, 1000], [4]),  # the last point came late
        ([0, 1000, 1001, 1002, 1003], [0]),
        ([burst + at for burst in range(0, 5000, 100) for at in range(5)], []),  # logged in bursts
        ([burst + at for burst in range(0, 300, 100) for at in range(5)], [4, 9]),
    ],
)
def test_a_gap_is_eight_times_as_long_as_points_are_apart(x: list[float], gaps: list[int], ask: Ask) -> None:
    assert ask("charts/lines/gaps.js", GAPS, [x, []]) == gaps


def test_coarse_buckets_around_a_window_of_points_are_no_gaps(ask: Ask) -> None:
    x = [0, 64, 128, 192, *range(193, 400), 448, 512, 576, 640]
    assert ask("charts/lines/gaps.js", GAPS, [x, [4, 4 + 207]]) == []
    holed = [0, 64, 128, 1920, 1984, 2048, *range(2049, 2100), *range(2150, 2200)]
    assert ask("charts/lines/gaps.js", GAPS, [holed, [6]]) == [2, 6 + 50], "each stretch has a measure of its own"


def test_a_gap_is_a_row_without_values(ask: Ask) -> None:
    x, value = [1, 2, 20, 21], [5, 6, 7, 8]
    assert ask("charts/lines/gaps.js", BROKEN, [x, value, None, [1]]) == [
        [1, 2, 11, 20, 21],
        ["5", "6", "NaN", "7", "8"],
        None,
    ]
    low = [4, 5, 6, 7]
    broken = ask("charts/lines/gaps.js", BROKEN, [x, value, low, [0, 1]])
    assert broken == [[1, 1.5, 2, 11, 20, 21], ["5", "NaN", "6", "NaN", "7", "8"], ["4", "NaN", "5", "NaN", "6", "7"]]
    assert ask("charts/lines/gaps.js", BROKEN, [x, value, None, []])[0] == x
