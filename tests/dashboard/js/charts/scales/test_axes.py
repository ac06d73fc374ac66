"""As many ticks as their labels have room for."""

from __future__ import annotations

import pytest

from tests.dashboard.js.conftest import Ask

WIDTH = 300  # pixels of a small chart
LABEL = 6.4  # pixels of a digit

LABELS = """({axesOf}, [width, min, max]) => {
    return axesOf({axis: "step", format: String}).x.ticks(min, max, width).map(({label}) => label);
}"""


@pytest.mark.parametrize("start", [0, 654_300, 1_234_567_890, 2**53])
def test_steps_that_are_written_out_do_not_overlap(start: int, ask_page: Ask) -> None:
    labels = ask_page("charts/scales/axes.js", LABELS, [WIDTH, start, start + 40])
    assert len(labels) >= 2
    assert len(labels) * LABEL * max(map(len, labels)) < 1.1 * WIDTH, labels


def test_short_labels_keep_their_number(ask_page: Ask) -> None:
    assert ask_page("charts/scales/axes.js", LABELS, [WIDTH, 0, 1_000_000]) == [
        "0",
        "200k",
        "400k",
        "600k",
        "800k",
        "1M",
    ]


def test_the_ticks_have_the_units_of_the_values(ask: Ask) -> None:
    labels = """(labels) => [labels.shareLabels([0, 0.05, 0.1], 100), labels.shareLabels([25, 50], 1),
        labels.secondsLabels([0, 0.1, 0.25]), labels.secondsLabels([1e-5, 2e-5]), labels.secondsLabels([0.5, 1, 1.5]),
        labels.speedLabels([0, 2048])]"""
    assert ask("charts/scales/labels.js", labels) == [
        ["0 %", "5 %", "10 %"],
        ["25 %", "50 %"],
        ["0", "100 ms", "250 ms"],
        ["10 µs", "20 µs"],
        ["0.5 s", "1.0 s", "1.5 s"],
        ["0 B/s", "2 KiB/s"],
    ]
