"""From the parts of a series to the lines that a plot draws."""

from __future__ import annotations

import pytest

from tests.dashboard.js.conftest import Ask

pytestmark = pytest.mark.browser


BUILD = """async ({build}, [parts, options]) => {
    const {partOf} = await import("http://modules.invalid/charts/parts.js");
    const line = {labels: {}, parts: new Map(), tails: new Map()};
    for (const {attempt, superseded, step, time, ...columns} of parts)
        line[superseded ? "tails" : "parts"].set(attempt, partOf({step, time: time ?? step, ...columns}));
    const built = build({lines: new Map([["[]", line]])}, options);
    const ys = built.ys.map((y) => [...y].map((value) => value === undefined ? "none" : value));
    return {...built, x: [...built.x], ys, last: [...built.last]};
}"""


def test_points_become_one_line(ask: Ask) -> None:
    built = ask("charts/build.js", BUILD, [[{"attempt": 1, "step": [1, 2, 3], "value": [3, 2, 1]}], {}])
    assert (built["x"], built["ys"], built["last"]) == ([1, 2, 3], [[3, 2, 1]], [["[]", 1]])


def test_the_newest_attempt_wins_and_the_old_tail_is_a_ghost(ask: Ask) -> None:
    parts = [
        {"attempt": 1, "step": [1, 2, 3, 4], "value": [9, 8, 7, 6]},
        {"attempt": 2, "step": [3, 4, 5], "value": [5, 4, 3]},
    ]
    built = ask("charts/build.js", BUILD, [parts, {}])
    assert [column["kind"] for column in built["columns"]] == ["main", "ghost"]
    assert built["x"] == [1, 2, 3, 4, 5]
    assert built["ys"] == [[9, 8, 5, 4, 3], ["none", 8, 7, 6, "none"]]
    assert built["marks"] == [{"attempt": 2, "x": 3}]


def test_a_tail_that_came_as_one_is_the_same_ghost(ask: Ask) -> None:
    parts = [
        {"attempt": 1, "step": [1, 2], "value": [9, 8]},
        {"attempt": 1, "step": [3, 4], "value": [7, 6], "superseded": True},
        {"attempt": 2, "step": [3, 4, 5], "value": [5, 4, 3]},
    ]
    built = ask("charts/build.js", BUILD, [parts, {}])
    assert [column["kind"] for column in built["columns"]] == ["main", "ghost"]
    assert built["ys"] == [[9, 8, 5, 4, 3], ["none", 8, 7, 6, "none"]]
    assert (built["marks"], built["last"]) == ([{"attempt": 2, "x": 3}], [["[]", 3]])
    timed = [{**part, "time": [100 * part["attempt"] + step for step in part["step"]]} for part in parts]
    built = ask("charts/build.js", BUILD, [timed, {"axis": "time", "start": 100}])
    assert built["ys"] == [[9, 8, 7, 6, None, 5, 4, 3]], "over time nothing is hidden"


def test_buckets_are_a_band_around_their_means(ask: Ask) -> None:
    buckets = {"kind": "buckets", "step": [5, 10], "mean": [2, 3], "min": [1, "NaN"], "max": [3, 4], "last": [2, 9]}
    live = {"attempt": 2, "step": [11], "value": [5]}
    built = ask("charts/build.js", BUILD, [[{"attempt": 1, **buckets}, live], {}])
    assert [column["kind"] for column in built["columns"]] == ["low", "high", "main"]
    assert built["ys"] == [[1, None, 5], [3, 4, 5], [2, 3, 5]]
    assert built["last"] == [["[]", 5]]


def test_on_a_time_axis_the_pause_between_attempts_is_a_gap(ask: Ask) -> None:
    parts = [
        {"attempt": 1, "step": [1, 2], "time": [100, 101], "value": [9, 8]},
        {"attempt": 2, "step": [2, 3], "time": [200, 201], "value": [7, 6]},
    ]
    built = ask("charts/build.js", BUILD, [parts, {"axis": "time", "start": 100}])
    assert built["x"] == [0, 1, 50.5, 100, 101]
    assert built["ys"] == [[9, 8, None, 7, 6]]
    assert built["bad"] == []


def test_what_is_not_finite_is_a_gap_with_a_mark(ask: Ask) -> None:
    built = ask("charts/build.js", BUILD, [[{"attempt": 1, "step": [1, 2, 3], "value": [3, "NaN", 1]}], {}])
    assert (built["ys"], built["bad"]) == ([[3, None, 1]], [2])


def test_points_that_come_late_take_their_place(ask: Ask) -> None:
    built = ask("charts/build.js", BUILD, [[{"attempt": 1, "step": [1, 3, 2, 3], "value": [1, 3, 2, 4]}], {}])
    assert (built["x"], built["ys"]) == ([1, 2, 3], [[1, 2, 4]])


def test_smoothing_keeps_the_raw_line_behind_and_does_not_move_a_flat_one(ask: Ask) -> None:
    built = ask("charts/build.js", BUILD, [[{"attempt": 1, "step": [1, 2, 3], "value": [2, 2, 2]}], {"smoothing": 0.9}])
    assert [column["kind"] for column in built["columns"]] == ["raw", "main"]
    assert built["ys"][1] == pytest.approx([2, 2, 2])


def test_a_logarithmic_axis_leaves_out_what_it_cannot_show(ask: Ask) -> None:
    built = ask("charts/build.js", BUILD, [[{"attempt": 1, "step": [1, 2], "value": [0, 10]}], {"isLog": True}])
    assert built["ys"] == [[None, 10]]


def test_a_line_knows_its_extremes(ask: Ask) -> None:
    entry = """({build}) => {
      const [step, value] = [Float64Array.of(1, 2, 3), Float64Array.of(3, NaN, 1)];
      const part = {step, time: step, value, min: null, max: null, last: null};
      const lines = new Map([["{}", {labels: {}, parts: new Map([[1, part]])}]]);
      return build({lines}, {}).extremes.get("{}");
    }"""
    assert ask("charts/build.js", entry) == {"min": 1, "max": 3}
