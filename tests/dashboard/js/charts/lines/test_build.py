"""From what is held of a name to the columns that a plot draws."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.dashboard.js.conftest import Ask

# Series as answers have them, of run "r" where they name none, become an entry; what was built comes back as JSON.
BUILD = """async ({build}, [series, {starts, group, hidden, ...options}]) => {
    const {partOf} = await import("http://modules.invalid/charts/data/parts.js");
    const {lineKey} = await import("http://modules.invalid/charts/data/names.js");
    const lines = new Map();
    for (const {run = "r", labels = {}, attempt = 1, superseded, step, time, ...columns} of series) {
        const key = lineKey(run, labels);
        if (!lines.has(key)) lines.set(key, {run, labels, parts: new Map(), tails: new Map()});
        lines.get(key)[superseded ? "tails" : "parts"].set(attempt, partOf({step, time: time ?? step, ...columns}));
    }
    const map = (pairs) => new Map(Object.entries(pairs ?? {}));
    const more = {starts: map(starts), group: group ? {...group, of: map(group.of)} : null, hidden: new Set(hidden)};
    const built = build({lines}, {...options, ...more});
    const ys = built.ys.map((y) => [...y].map((value) => value === undefined ? "none" : value));
    return {...built, x: [...built.x], ys, lines: Object.fromEntries(built.lines)};
}"""

POINTS = {"step": [1, 2, 3], "value": [3.0, 2.0, 1.0]}
OLD = {"attempt": 1, "step": [1, 2, 3, 4], "value": [9, 8, 7, 6]}
NEW = {"attempt": 2, "step": [3, 4, 5], "value": [5, 4, 3]}


def kinds(built: dict[str, Any]) -> list[str]:
    return [column["kind"] for column in built["columns"]]


@pytest.fixture(scope="module")
def build(ask: Ask) -> Ask:
    return lambda series, **options: ask("charts/lines/build.js", BUILD, [series, options])


def test_points_become_one_line(build: Ask) -> None:
    built = build([POINTS])
    assert (built["x"], built["ys"]) == ([1, 2, 3], [[3, 2, 1]])
    assert built["columns"] == [{"kind": "main", "key": "r []"}]
    known = {"run": "r", "labels": {}, "group": None, "runs": ["r"], "last": 1, "min": 1, "max": 3, "count": 3}
    assert built["lines"] == {"r []": known}


def test_without_points_there_is_nothing_to_draw(build: Ask) -> None:
    built = build([])
    assert (built["x"], built["ys"], built["columns"], built["lines"]) == ([], [], [], {})
    assert build([], ignoreOutliers=True, ranks="band", group={"of": {}, "band": "ci"})["x"] == []


def test_the_newest_attempt_wins_and_the_old_tail_is_a_ghost(build: Ask) -> None:
    built = build([OLD, NEW])
    assert kinds(built) == ["main", "ghost"]
    assert built["x"] == [1, 2, 3, 4, 5]
    assert built["ys"] == [[9, 8, 5, 4, 3], ["none", 8, 7, 6, "none"]]
    assert built["marks"] == [{"run": "r", "attempt": 2, "x": 3}]


def test_a_tail_that_came_as_one_is_the_same_ghost(build: Ask) -> None:
    parts = [
        {"attempt": 1, "step": [1, 2], "value": [9, 8]},
        {"attempt": 1, "step": [3, 4], "value": [7, 6], "superseded": True},
        {"attempt": 2, "step": [3, 4, 5], "value": [5, 4, 3]},
    ]
    built = build(parts)
    assert kinds(built) == ["main", "ghost"]
    assert built["ys"] == [[9, 8, 5, 4, 3], ["none", 8, 7, 6, "none"]]
    assert (built["marks"][0]["x"], built["lines"]["r []"]["last"]) == (3, 3)
    timed = [{**part, "time": [100 * part["attempt"] + step for step in part["step"]]} for part in parts]
    built = build(timed, axis="relative", starts={"r": 100})
    assert built["ys"] == [[9, 8, 7, 6, None, 5, 4, 3]], "over time nothing is hidden"


def test_an_attempt_that_is_trained_again_as_a_whole_is_a_ghost_alone(build: Ask) -> None:
    again = {"attempt": 2, "step": [1, 2], "value": [5, 4]}
    built = build([OLD, again])
    assert kinds(built) == ["main", "ghost"]
    assert built["ys"] == [[5, 4, "none", "none"], [9, 8, 7, 6]]
    assert built["marks"] == [], "the first that is seen began nothing anew"


def test_of_three_attempts_each_hides_what_it_has_again(build: Ask) -> None:
    newest = {"attempt": 3, "step": [2, 3], "value": [1, 0]}
    built = build([OLD, NEW, newest])
    assert kinds(built) == ["main", "ghost", "ghost"]
    assert built["ys"][0] == [9, 1, 0, "none", "none"]
    assert [y[-1] for y in built["ys"][1:]] == ["none", 3]


def test_buckets_are_a_band_around_their_means(build: Ask) -> None:
    buckets = {"kind": "buckets", "step": [5, 10], "mean": [2, 3], "min": [1, "NaN"], "max": [3, 4], "last": [2, 9]}
    built = build([{"attempt": 1, **buckets}, {"attempt": 2, "step": [11], "value": [5]}])
    assert kinds(built) == ["low", "high", "main"]
    assert built["ys"] == [[1, None, 5], [3, 4, 5], [2, 3, 5]]
    assert (built["lines"]["r []"]["last"], built["lines"]["r []"]["min"], built["lines"]["r []"]["max"]) == (5, 1, 5)


@pytest.mark.parametrize(("axis", "x"), [("relative", [0, 1, 50.5, 100, 101]), ("time", [100, 101, 150.5, 200, 201])])
def test_on_a_time_axis_the_pause_between_attempts_is_a_gap(axis: str, x: list[float], build: Ask) -> None:
    parts = [
        {"attempt": 1, "step": [1, 2], "time": [100, 101], "value": [9, 8]},
        {"attempt": 2, "step": [2, 3], "time": [200, 201], "value": [7, 6]},
    ]
    built = build(parts, axis=axis, starts={"r": 100})
    assert (built["x"], built["ys"], built["bad"]) == (x, [[9, 8, None, 7, 6]], [])
    assert [mark["x"] for mark in built["marks"]] == [x[3]]


def test_a_clock_that_goes_back_moves_no_step(build: Ask) -> None:
    part = {"step": [1, 2, 3, 4], "time": [100, 101, 99, 102], "value": [1, 2, 3, 4]}
    assert build([part])["ys"] == [[1, 2, 3, 4]]
    built = build([part], axis="time")
    assert (built["x"], built["ys"]) == ([99, 100, 101, 102], [[3, 1, 2, 4]])


def test_an_attempt_whose_clock_lags_hides_what_it_overlaps(build: Ask) -> None:
    parts = [
        {"attempt": 1, "step": [1, 2, 3], "time": [100, 101, 102], "value": [9, 8, 7]},
        {"attempt": 2, "step": [4, 5], "time": [101.5, 103], "value": [6, 5]},
    ]
    built = build(parts, axis="time")
    assert kinds(built) == ["main", "ghost"]
    assert [y for y in built["ys"][0] if y != "none"] == [9, 8, None, 6, 5]
    assert [y for y in built["ys"][1] if y != "none"] == [8, 7]


def test_points_of_one_moment_are_all_drawn(build: Ask) -> None:
    built = build(
        [{"step": [1, 2, 3], "time": [100, 100, 100], "value": [1, 9, 1]}], axis="relative", starts={"r": 100}
    )
    assert built["ys"] == [[1, 9, 1]]
    assert built["x"] == pytest.approx([0, 1e-6, 2e-6])
    assert built["x"][0] < built["x"][1] < built["x"][2]


def test_what_is_not_finite_is_a_gap_with_a_mark(build: Ask) -> None:
    built = build([{"step": [1, 2, 3, 4], "value": [3, "NaN", "-Infinity", "Infinity"]}])
    assert built["ys"] == [[3, None, None, None]]
    assert [bad["x"] for bad in built["bad"]] == [2, 3, 4]
    assert math.isnan(built["bad"][0]["value"])
    assert [bad["value"] for bad in built["bad"][1:]] == [-math.inf, math.inf]


def test_a_bucket_that_holds_what_is_no_number_is_marked(build: Ask) -> None:
    buckets = {"kind": "buckets", "step": [5, 10, 15], "mean": [2, 3, "Infinity"], "last": [2, 9, 1]}
    part = {**buckets, "min": [1, 2, 1], "max": [3, 4, "Infinity"], "num_nan": [0, 3, 0]}
    built = build([part, {"attempt": 2, "step": [16, 17], "value": ["NaN", "-Infinity"]}])
    assert [bad["x"] for bad in built["bad"]] == [10, 15, 16, 17]
    assert [str(bad["value"]) for bad in built["bad"]] == ["nan", "inf", "nan", "-inf"]
    assert built["ys"] == [[1, 2, 1, None, None], [3, 4, None, None, None], [2, 3, None, None, None]]


def test_a_series_without_a_single_number_has_no_line_and_no_extremes(build: Ask) -> None:
    for options in ({}, {"smoothing": {"kind": "ema", "amount": 0.9}}, {"ignoreOutliers": True}, {"isLogY": True}):
        built = build([{"step": [1, 2, 3, 4], "value": ["NaN"] * 4}], **options)
        assert built["ys"] == [[None] * 4]
        assert (len(built["bad"]), built["range"]) == (4, None)
        assert (built["lines"]["r []"]["min"], built["lines"]["r []"]["max"]) == (None, None)


def test_points_that_come_late_take_their_place(build: Ask) -> None:
    built = build([{"step": [1, 3, 2, 3], "value": [1, 3, 2, 4]}])
    assert (built["x"], built["ys"]) == ([1, 2, 3], [[1, 2, 4]])


def test_smoothing_keeps_the_raw_line_behind_and_does_not_move_a_flat_one(build: Ask) -> None:
    for kind in ("ema", "mean", "gaussian"):
        built = build([{"step": [1, 2, 3], "value": [2, 2, 2]}], smoothing={"kind": kind, "amount": 0.9})
        assert kinds(built) == ["raw", "main"]
        assert built["ys"][1] == pytest.approx([2, 2, 2])
    assert kinds(build([POINTS], smoothing={"kind": "none", "amount": 0.9})) == ["main"]
    assert kinds(build([POINTS], smoothing={"kind": "ema", "amount": 0})) == ["main"]


def test_single_points_among_buckets_are_seen_behind_their_smoothed_line(build: Ask) -> None:
    buckets = {"kind": "buckets", "step": [5, 10], "mean": [2, 3], "min": [1, 2], "max": [3, 4], "last": [2, 3]}
    fine = {"attempt": 2, "step": [11, 12], "value": [5, 6]}
    smoothing = {"kind": "mean", "amount": 0.9}
    built = build([buckets, fine], smoothing=smoothing)
    assert kinds(built) == ["low", "high", "raw", "main"]
    assert built["ys"][2] == [None, None, 5, 6]
    assert kinds(
        build([{**buckets, "step": [5, 6]}, {"step": [7], "value": [1], "attempt": 2}], smoothing=smoothing)
    ) == ["low", "high", "main"]


def test_a_logarithmic_axis_leaves_out_what_it_cannot_show(build: Ask) -> None:
    assert build([{"step": [1, 2, 3], "value": [0, 10, -1]}], isLogY=True)["ys"] == [[None, 10, None]]
    built = build([{"step": [-1, 0, 1, 2], "value": [1, 2, 3, 4]}], isLogX=True)
    assert (built["x"], built["ys"]) == ([1, 2], [[3, 4]])
    assert build([{"step": [-1, 0], "value": [1, 2]}], isLogX=True)["x"] == []


def test_a_stretch_without_points_is_a_gap(build: Ask) -> None:
    built = build([{"step": [1, 2, 3, 20, 21, 22], "value": [1, 2, 3, 4, 5, 6]}])
    assert built["x"] == [1, 2, 3, 11.5, 20, 21, 22]
    assert built["ys"] == [[1, 2, 3, None, 4, 5, 6]]


def test_outliers_are_left_out_of_the_range_but_not_of_the_line(build: Ask) -> None:
    values = [float(value) for value in range(200)]
    values[50] = 1e9
    part = {"step": list(range(200)), "value": values}
    built = build([part], ignoreOutliers=True)
    assert built["range"]["high"] < 300
    assert built["ys"][0][50] == 1e9
    near = build([part], ignoreOutliers=True, view=[100, 110])
    assert 98 <= near["range"]["low"] < 101 < 109 < near["range"]["high"] <= 112
    assert build([part])["range"] is None


TWO = [{"run": "a", "step": [1, 2, 3], "value": [1, 2, 3]}, {"run": "b", "step": [1, 2, 3], "value": [3, 4, 5]}]


def test_runs_that_share_their_steps_lie_over_each_other(build: Ask) -> None:
    built = build(TWO)
    assert (built["x"], built["ys"]) == ([1, 2, 3], [[1, 2, 3], [3, 4, 5]])
    assert [column["key"] for column in built["columns"]] == ["a []", "b []"]


def test_each_run_has_a_start_of_its_own(build: Ask) -> None:
    built = build(TWO, axis="relative", starts={"a": 1, "b": 0})
    assert (built["x"], built["ys"]) == ([0, 1, 2, 3], [[1, 2, 3, "none"], ["none", 3, 4, 5]])


def test_a_hidden_run_is_left_out(build: Ask) -> None:
    built = build(TWO, hidden=["a"])
    assert (list(built["lines"]), built["ys"]) == (["b []"], [[3, 4, 5]])


def test_the_ranks_of_a_run_are_a_band_around_their_mean(build: Ask) -> None:
    ranks = [{"labels": {"rank": str(rank)}, "step": [1, 2], "value": [rank, 2 * rank]} for rank in range(3)]
    built = build(ranks, ranks="band")
    assert (kinds(built), built["ys"]) == (["low", "high", "main"], [[0, 0], [2, 4], [1, 2]])
    line = built["lines"]["band r"]
    assert (line["run"], line["last"], line["min"], line["max"]) == ("r", 2, 0, 4)
    assert list(build([POINTS], ranks="band")["lines"]) == ["r []"], "one alone stays what it is"


def test_the_runs_of_a_group_are_a_mean_with_a_band(build: Ask) -> None:
    third = {"run": "c", "step": [1, 2, 3], "value": [9, 9, 9]}
    group = {"of": {"a": "lr 0.1", "b": "lr 0.1", "c": "lr 1"}, "band": "minmax"}
    built = build([*TWO, third], group=group)
    line = built["lines"]["group lr 0.1"]
    assert (line["run"], line["group"], line["runs"], line["last"]) == (None, "lr 0.1", ["a", "b"], 4)
    assert built["ys"][:3] == [[1, 2, 3], [3, 4, 5], [2, 3, 4]]
    assert built["lines"]["group lr 1"]["runs"] == ["c"]
    spread = build([*TWO, third], group={**group, "band": "sd"})
    assert spread["ys"][1][0] == pytest.approx(2 + math.sqrt(2))
    sure = build([*TWO, third], group={**group, "band": "ci"})
    assert sure["ys"][1][0] == pytest.approx(2 + 12.7062 * 1, rel=1e-4)


def test_the_line_of_a_group_says_how_far_it_speaks_and_its_last_value_is_where_it_ends(build: Ask) -> None:
    runs = [
        {"run": "a", "step": [0, 1, 2], "value": [8.0, 6.0, 4.0]},
        {"run": "b", "step": [0, 1, 2], "value": [6.0, 4.0, 2.0]},
        {"run": "c", "step": [0], "value": [90.0]},
    ]
    line = build(runs, group={"of": dict.fromkeys("abc", "g"), "band": "minmax"})["lines"]["group g"]
    assert line["last"] == 3.0, "the one that ended early is not mixed in"
    assert line["reach"] == {"from": 0, "to": 2, "numAtEnd": 2}


def test_a_run_with_many_ranks_counts_once_in_its_group(build: Ask) -> None:
    ranks = [{"run": "a", "labels": {"rank": str(rank)}, "step": [1, 2], "value": [0, 0]} for rank in range(3)]
    other = {"run": "b", "step": [1, 2], "value": [8, 8]}
    built = build([*ranks, other], group={"of": {"a": "g", "b": "g"}, "band": "minmax"})
    assert built["ys"][2] == [4, 4]


def test_a_group_tells_when_which_of_its_runs_began_anew(build: Ask) -> None:
    runs = [{**part, "run": run} for run in ("a", "b") for part in (OLD, NEW)]
    built = build(runs, group={"of": {"a": "g", "b": "g"}, "band": "sd"})
    assert built["marks"] == [{"run": run, "attempt": 2, "x": 3} for run in ("a", "b")]
