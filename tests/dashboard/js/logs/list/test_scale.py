"""Where a view stands in a list of any length, and where its scroll bar does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboard.js.conftest import Ask

BAR = "({scaleOf, barOf}, [total, view, tops]) => tops.map((top) => barOf(top, scaleOf(total, view)))"
MOVED = "({scaleOf, moved}, [total, view, from, to]) => moved(from, to, scaleOf(total, view))"
AIMED = "({scaleOf, aimed}, [index, top, where]) => aimed(index, top, scaleOf(1000, 180), where)"


def test_a_short_list_is_scrolled_pixel_by_pixel(ask: Ask) -> None:
    assert ask("logs/list/scale.js", BAR, [1000, 180, [0, 1.5, 990, 5000]]) == [0, 27, 17_820, 17_820]
    assert ask("logs/list/scale.js", MOVED, [1000, 180, 0, 45]) == {"top": 2.5}
    assert ask("logs/list/scale.js", BAR, [3, 180, [0]]) == [0]


def test_a_list_higher_than_any_element_can_be_fits_its_bar(ask: Ask) -> None:
    """Ten million lines: 180 million pixels."""
    total, view = 10_000_000, 900
    height = ask("logs/list/scale.js", "({scaleOf}, [total, view]) => scaleOf(total, view).height", [total, view])
    assert height == 12_000_000
    assert ask("logs/list/scale.js", BAR, [total, view, [0, total - 50]]) == [0, height - view]


@pytest.mark.parametrize(
    ("start", "to", "move"),
    [
        (5_000_000, 5_000_100, {"px": 100}),  # a wheel goes line by line
        (5_000_000, 4_998_500, {"px": -1500}),
        (5_000_000, 5_999_550, {"top": 4_999_975}),  # the bar is dragged to the middle
        (100, 0, {"top": 0}),
        (11_999_000, 11_999_100, {"top": 10_000_000}),  # the end, wherever it is
    ],
)
def test_a_step_is_told_from_a_leap(start: int, to: int, move: dict[str, Any], ask: Ask) -> None:
    assert ask("logs/list/scale.js", MOVED, [10_000_000, 900, start, to]) == pytest.approx(move)


@pytest.mark.parametrize(
    ("index", "top", "where", "wanted"),
    [
        (505, 500, "near", 500),  # it is in view
        (499, 500, "near", 499),
        (510, 500, "near", 501),
        (300, 500, "middle", 295.5),
        (300, 500, "top", 300),
        (999, 500, "middle", 990),
        (1, 500, "middle", 0),
    ],
)
def test_a_line_is_brought_into_view(index: int, top: int, where: str, wanted: float, ask: Ask) -> None:
    assert ask("logs/list/scale.js", AIMED, [index, top, where]) == wanted
