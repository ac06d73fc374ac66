"""What of a chart is in view, and how far it reaches."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboard.js.conftest import Ask

CALL = "(ranges, [name, ...values]) => ranges[name](...values)"
BUILT = {"x": [1, 2, 3, 4, 5], "ys": [[10, 9, None, 0, 90], [1, "none", 3, 4, -5]], "bad": []}


@pytest.fixture(scope="module")
def ranges(ask: Ask) -> Ask:
    return lambda *words: ask("charts/scales/ranges.js", CALL, list(words))


@pytest.mark.parametrize(
    ("low", "high", "places"), [(1, 5, [0, 5]), (2, 3, [1, 3]), (2.1, 2.9, [2, 2]), (-9, 0, [0, 0]), (6, 9, [5, 5])]
)
def test_the_ends_of_a_view_belong_to_it(low: float, high: float, places: list[int], ranges: Ask) -> None:
    assert ranges("inView", BUILT["x"], {"min": low, "max": high}) == places


@pytest.mark.parametrize(
    ("low", "high", "is_log", "extent"),
    [
        (1, 5, False, [-5, 90]),
        (1, 4, False, [0, 10]),  # the spike behind it is out of view
        (1, 5, True, [1, 90]),
        (4.2, 4.8, False, [-5, 90]),  # between two points the line goes from one to the other
        (8, 9, False, [-5, 90]),
    ],
)
def test_y_reaches_what_is_in_view(low: float, high: float, is_log: bool, extent: list[float], ranges: Ask) -> None:
    assert ranges("extentOf", BUILT, {"min": low, "max": high}, is_log) == extent


def test_without_outliers_y_reaches_what_was_found(ranges: Ask) -> None:
    built: dict[str, Any] = {**BUILT, "range": {"low": 0, "high": 10}}
    assert ranges("yRangeOf", built, [1, 5], False) == pytest.approx([0, 10.6])
    low, _ = ranges("yRangeOf", built, [1, 5], True)
    assert low > 0, "a logarithmic axis has no zero"


def test_what_was_known_of_the_whole_stays_while_a_part_is_in_view(ranges: Ask) -> None:
    assert ranges("reachOf", BUILT, None, [0, 100]) == [1, 5]
    assert ranges("reachOf", BUILT, [2, 3], [0, 100]) == [0, 100]
    assert ranges("reachOf", {"x": [], "bad": [{"x": 7}, {"x": 3}]}, None, None) == [3, 7]
    assert ranges("reachOf", {"x": [4], "bad": []}, None, None) == [3.5, 4.5]
    assert ranges("reachOf", {"x": [], "bad": []}, None, None) == [0, 1]


def test_a_logarithmic_x_stays_above_zero(ranges: Ask) -> None:
    assert ranges("reachOf", {"x": [], "bad": []}, None, None, True) == [1, 10]
    assert ranges("reachOf", {"x": [], "bad": [{"x": 0}, {"x": 5}, {"x": 9}]}, None, None, True) == [5, 9]
    assert ranges("reachOf", {"x": [0.2], "bad": []}, None, None, True) == [0.1, 0.4]
