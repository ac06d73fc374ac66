"""What ECharts is told: axes in steps whose labels differ."""

from __future__ import annotations

import pytest

from tests.dashboard.js.conftest import Ask

CALL = """({evenly}, words) => {
    const {min, max, interval, axisLabel} = evenly(...words);
    const all = Array.from({length: Math.round((max - min) / interval) + 1}, (_, at) => min + at * interval);
    return [min, max, all.map(axisLabel.formatter)];
}"""


@pytest.mark.parametrize(
    ("low", "high", "most", "expected"),
    [
        (2.2785, 2.3021, 5, [2.275, 2.305, ["2.275", "2.280", "2.285", "2.290", "2.295", "2.300", "2.305"]]),
        (0.13, 0.91, 3, [0, 1, ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]]),
        (-3.2, 4.1, 3, [-5, 5, ["−5.0", "−2.5", "0", "2.5", "5.0"]]),
        (2.5, 2.5, 3, [2.2, 2.8, ["2.2", "2.4", "2.6", "2.8"]]),
        (1200.0, 5400.0, 5, [1000, 6000, ["1k", "2k", "3k", "4k", "5k", "6k"]]),
    ],
)
def test_an_axis_ends_at_steps_and_repeats_no_label(
    low: float, high: float, most: int, expected: list[object], ask_page: Ask
) -> None:
    assert ask_page("sweeps/look.js", CALL, [low, high, most]) == expected
