"""The stretch of an axis that is in view, as hands move it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dashboard.js.conftest import Ask


@pytest.fixture(scope="module")
def views(ask: Ask) -> Ask:
    return lambda name, *values: ask(
        "charts/scales/views.js", "(views, [name, values]) => views[name](...values)", [name, values]
    )


def test_zooming_keeps_what_is_under_the_pointer(views: Ask) -> None:
    assert views("zoomed", [0, 100], 25, 0.5) == [12.5, 62.5]
    assert views("zoomed", [1, 10_000], 100, 0.5, True) == pytest.approx([10, 1000])


def test_panning_moves_by_a_share_of_what_is_seen(views: Ask) -> None:
    assert views("panned", [100, 200], 0.25) == [125, 225]
    assert views("panned", [1, 100], 0.5, True) == pytest.approx([10, 1000])


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        ([20, 40], [20, 40]),
        ([-20, 40], [0, 60]),
        ([80, 120], [60, 100]),
        ([-5, 105], None),
        ([0, 100], None),
        ([50, 50.5], [49.75, 50.75]),
    ],
)
def test_a_view_stays_within_the_data(wanted: list[float], shown: list[float] | None, views: Ask) -> None:
    assert views("within", wanted, [0, 100], 1) == shown


@pytest.mark.parametrize(
    ("low", "high", "is_log", "range_"),
    [
        (None, None, False, [0, 1]),
        (None, None, True, [0.1, 10]),
        (2, 2, False, [1.88, 2.12]),
        (0, 0, False, [0, 1]),
        (0, 10, False, [0, 10.6]),
        (-1, 1, False, [-1.12, 1.12]),
    ],
)
def test_a_range_has_room_and_is_never_of_no_width(
    low: float | None, high: float | None, is_log: bool, range_: list[float], views: Ask
) -> None:
    assert views("padded", low, high, is_log) == pytest.approx(range_)


def test_a_logarithmic_range_stays_above_zero(views: Ask) -> None:
    low, high = views("padded", 1e-5, 1e-5, True)
    assert 0 < low < 1e-5 < high


@given(
    x=st.lists(st.integers(-1000, 1000), min_size=1, max_size=50, unique=True).map(sorted),
    values=st.lists(st.floats(-1100, 1100), min_size=1, max_size=20),
)
@settings(max_examples=20, deadline=None)
def test_the_nearest_place_is_the_nearest(x: list[int], values: list[float], ask: Ask) -> None:
    each = "({nearestPlace}, [x, values]) => values.map((value) => nearestPlace(x, value))"
    for value, place in zip(values, ask("charts/scales/views.js", each, [x, values]), strict=True):
        assert abs(x[place] - value) == min(abs(one - value) for one in x)


@pytest.mark.parametrize(("value", "bounds"), [(-1, [0, 0]), (0, [0, 1]), (4, [1, 1]), (20, [2, 3]), (25, [3, 3])])
def test_the_bounds_of_a_value_are_found(value: float, bounds: list[int], ask: Ask) -> None:
    both = "(views, value) => [views.lowerBound([0, 10, 20], value), views.upperBound([0, 10, 20], value)]"
    assert ask("charts/scales/views.js", both, value) == bounds


READ = """(reading, [name, built, ...rest]) => {
    const none = (value) => (value === "none" ? undefined : value === "gap" ? null : value);
    const ys = built.ys.map((y) => y.map(none));
    const found = reading[name]({...built, ys}, ...rest);
    return found instanceof Map ? Object.fromEntries([...found].map(([key, {x, value}]) => [key, [x, value]])) : found;
}"""


def two_lines(one: list[Any], other: list[Any]) -> dict[str, Any]:
    columns = [{"kind": "main", "key": "one"}, {"kind": "main", "key": "other"}]
    return {"x": list(range(10, 10 * len(one) + 1, 10)), "ys": [one, other], "columns": columns}


def test_a_line_without_a_point_there_is_read_at_its_nearest(ask: Ask) -> None:
    built = two_lines([1, 2, 3, 4], [5, "none", "none", 8])
    assert ask("charts/cards/reading.js", READ, ["valuesAt", built, 1]) == {"one": [20, 2], "other": [10, 5]}
    assert ask("charts/cards/reading.js", READ, ["valuesAt", built, 2]) == {"one": [30, 3], "other": [40, 8]}


def test_in_a_gap_and_far_behind_its_end_a_line_has_no_value(ask: Ask) -> None:
    built = two_lines([1, "gap", *range(30)], [5, *["none"] * 31])
    assert ask("charts/cards/reading.js", READ, ["valuesAt", built, 1]) == {"other": [10, 5]}
    assert list(ask("charts/cards/reading.js", READ, ["valuesAt", built, 25])) == ["one"]


def test_the_crosshair_steps_over_places_without_a_point(ask: Ask) -> None:
    built = two_lines(["none", 1, "gap", "none"], ["none", "none", "gap", 2])
    built["columns"].append({"kind": "ghost", "key": "one"})
    built["ys"].append([1, 1, 1, 1])
    assert ask("charts/cards/reading.js", READ, ["nextPlace", built, 1, 1]) == 3
    assert ask("charts/cards/reading.js", READ, ["nextPlace", built, 1, -1]) is None


def test_a_band_is_read_with_what_it_reaches(ask: Ask) -> None:
    script = """({valuesAt}) => valuesAt({x: [5], ys: [[1], [9], [2]],
        columns: ["low", "high", "main"].map((kind) => ({kind, key: "a"}))}, 0).get("a")"""
    assert ask("charts/cards/reading.js", script) == {"x": 5, "value": 2, "low": 1, "high": 9}


def test_where_the_crosshair_is_follows_from_the_axis(ask: Ask) -> None:
    script = "({where}) => [where(1234, 'step'), where(90, 'relative'), where(-3, 'relative')]"
    assert ask("charts/cards/reading.js", script) == ["step 1,234", "1 min 30 s", "−3 s"]
