from __future__ import annotations

import math
from typing import Any

import pytest

from runs.ingest.commit import Source, commit
from runs.ingest.validation.records import incoming
from runs.records.deltas import delta
from runs.records.metrics import erase, progress
from runs.records.metrics.models import Segment
from runs.records.points import read
from tests.series import series_data
from tests.spools import Point, Spool, some_points

pytestmark = pytest.mark.django_db(databases="__all__")


def store(points: list[Point], *, attempt: int = 1, spool: Spool | None = None, name: str = "x", **labels: str) -> None:
    frame = (spool or Spool()).points(points, name, **labels)
    commit("run1", fence=attempt, source=Source("node1", "node-a"), batch=incoming(frame))


def only(**query: Any) -> dict[str, Any]:
    series = series_data("run1", ["x"], **query)["series"]
    assert len(series) == 1
    return dict(series[0])


def test_few_points_come_as_they_were_logged() -> None:
    store(some_points(1, 3))
    assert series_data("run1", ["x"]) == {
        "cursor": 1,
        "series": [
            {
                "kind": "raw",
                "name": "x",
                "labels": {},
                "attempt": 1,
                "step": [1, 2, 3],
                "time": [1001.0, 1002.0, 1003.0],
                "value": [1.0, 2.0, 3.0],
            }
        ],
    }


def test_the_list_of_series_has_their_summaries() -> None:
    store([(1, 1.0, 2.0), (2, 2.0, math.nan)], gpu="0")
    assert read.series_list("run1") == [
        {
            "name": "x",
            "labels": {"gpu": "0"},
            "count": 2,
            "first_step": 1,
            "last_step": 2,
            "last": "NaN",
            "min": 2.0,
            "max": 2.0,
        }
    ]


def test_many_points_come_as_buckets_that_hold_every_one() -> None:
    spool = Spool()
    for first in range(0, 1000, 100):
        store(some_points(first, 100), spool=spool)
    part = only(points=10)
    assert part["kind"] == "buckets"
    lasts = [*range(127, 1000, 128), 999]  # windows are powers of two wide and aligned
    assert part["count"] == [128] * 7 + [104]
    assert part["min"] == [float(first) for first in range(0, 1000, 128)]
    assert part["max"] == part["last"] == [float(last) for last in lasts]
    assert part["mean"] == [first + 63.5 for first in range(0, 896, 128)] + [947.5]
    assert part["step"] == lasts


def test_buckets_say_how_many_of_their_points_are_nan() -> None:
    points = [(step, float(step), math.nan if step in (700, 701) else 1.0) for step in range(1000)]
    store(points)
    found = only(points=10)
    assert sum(found["num_nan"]) == 2
    assert [step for step, num in zip(found["step"], found["num_nan"], strict=True) if num] == [767]
    assert "num_nan" not in only(points=2, end=600), "most series have none"


def test_a_window_has_both_its_ends() -> None:
    store(some_points(1, 100))
    assert only(start=10, end=12)["step"] == [10, 11, 12]
    assert only(x="time", start=1010.0, end=1011.0)["step"] == [10, 11]
    assert sum(only(start=10, end=59, points=7)["count"]) == 50
    assert series_data("run1", ["x"], start=200)["series"] == []


def test_from_its_first_step_on_a_newer_attempt_hides_the_older() -> None:
    old, new = Spool(), Spool()
    store(some_points(1, 10), attempt=1, spool=old)
    store([(6, 2000.0, -6.0), (7, 2001.0, -7.0)], attempt=2, spool=new)
    store(some_points(11, 3), attempt=1, spool=old)
    series = series_data("run1", ["x"])["series"]
    assert [(part["attempt"], part["step"]) for part in series] == [(1, [1, 2, 3, 4, 5]), (2, [6, 7])]
    # The newer attempt hides them in a window in which it has no point itself, too.
    assert series_data("run1", ["x"], start=9)["series"] == []
    # What it hides counts in no figure either.
    (item,) = read.series_list("run1")
    assert (item["count"], item["min"], item["max"], item["last"]) == (7, -7.0, 5.0, -7.0)
    assert read.summaries(["run1"])["run1"]["x"] == {"last": -7.0, "min": -7.0, "max": 5.0, "count": 7}


def test_within_a_step_the_order_is_time_then_arrival() -> None:
    one, other = Spool("b" * 32), Spool("a" * 32)
    store([(1, 5.0, 1.0)], spool=one)
    store([(1, 5.0, 2.0)], spool=other)
    store([(1, 4.0, 3.0)], spool=one)
    store([(1, 5.0, 4.0)], spool=one)
    store([(0, 9.0, 5.0)], spool=one)
    assert only()["value"] == [5.0, 3.0, 1.0, 2.0, 4.0]
    assert only(x="time")["value"] == [3.0, 1.0, 2.0, 4.0, 5.0]


def test_what_is_not_finite_travels_as_words() -> None:
    store([(1, 1.0, math.nan), (2, 2.0, math.inf), (3, 3.0, -math.inf), (4, 4.0, 1.0)])
    assert only()["value"] == ["NaN", "Infinity", "-Infinity", 1.0]
    part = only(points=2)
    assert part["min"] == ["-Infinity", 1.0]
    assert part["count"] == [3, 1]


def test_labels_choose_the_series_that_have_them() -> None:
    store([(1, 1.0, 1.0)], gpu="0", node="a")
    store([(1, 1.0, 2.0)], gpu="1", node="a")
    assert [part["value"] for part in series_data("run1", ["x"], {"gpu": "1"})["series"]] == [[2.0]]
    assert len(series_data("run1", ["x"], {"node": "a"})["series"]) == 2
    assert len(series_data("run1", [])["series"]) == 2


def test_a_run_without_points_has_none() -> None:
    assert series_data("nothing", ["x"]) == {"cursor": 0, "series": []}
    assert read.sparklines(["nothing"], "x", 10) == {}
    assert read.summaries(["nothing"]) == {"nothing": {}}
    assert progress.telemetry(["nothing"])["nothing"].step is None


def test_sparklines_are_short_and_finite() -> None:
    store([*some_points(0, 100), (100, 2000.0, math.nan)])
    line = read.sparklines(["run1"], "x", 10)["run1"]
    assert len(line) == 7
    assert line[0] == 7.5


def test_summaries_put_labels_together() -> None:
    store([(1, 1.0, 1.0)], gpu="0")
    store([(1, 2.0, 5.0)], gpu="1")
    assert read.summaries(["run1"])["run1"] == {"x": {"last": 5.0, "min": 1.0, "max": 5.0, "count": 2}}
    store([(1, 0.5, 3.0)])
    assert read.summaries(["run1"])["run1"]["x"]["last"] == 3.0


def test_what_came_after_a_cursor_continues_what_was_read_before_it() -> None:
    spool = Spool()
    store(some_points(1, 2), spool=spool)
    cursor = series_data("run1", ["x"])["cursor"]
    store(some_points(3, 2), spool=spool)
    assert delta.delta_since("run1", cursor).series == [
        {"name": "x", "labels": {}, "attempt": 1, "step": [3, 4], "time": [1003.0, 1004.0], "value": [3.0, 4.0]}
    ]
    assert delta.delta_since("run1", cursor + 1).series == []


def test_whoever_saw_all_up_to_a_cursor_reads_no_batch_twice() -> None:
    spool = Spool()
    for first in (1, 3, 5):
        store(some_points(first, 2), spool=spool)
    found = {after: read.curves({"run1": (None, None)}, ["x"], after=after)[1] for after in (0, 2, 3)}
    steps = {after: [one.columns["step"].tolist() for one in some] for after, some in found.items()}
    assert steps == {0: [[1, 2, 3, 4, 5, 6]], 2: [[5, 6]], 3: []}


def test_too_much_after_a_cursor_is_read_again_instead() -> None:
    spool = Spool()
    store(some_points(1, 2), spool=spool)
    store(some_points(3, 20_001), spool=spool)
    assert delta.delta_since("run1", 1).messages() == [
        {"type": "refetch", "from": 1, "cursor": 2, "steps": [3, 20_003]}
    ]
    assert delta.delta_since("run1", 99).refetch


def test_a_deleted_run_leaves_nothing() -> None:
    store(some_points(1, 2))
    erase.delete_run_data("run1")
    assert read.series_list("run1") == []
    assert progress.watermarks("run1") == {}
    assert progress.cursor_of("run1") == 0


def test_a_long_frame_is_cut_and_put_together_again() -> None:
    rows = [(step % 1000, float(step), float(step)) for step in range(40_000)]
    store(rows)
    assert Segment.objects.count() == 3
    assert [value for value in only(points=50_000)["value"] if value % 1000 == 7.0] == [
        float(step) for step in range(7, 40_000, 1000)
    ]


def test_a_sparkline_grows_with_its_series() -> None:
    store([(1, 1.0, 5.0), (2, 2.0, 4.0)])
    assert read.sparklines(["run1"], "x", 10) == {"run1": [5.0, 4.0]}
    store([(3, 3.0, 3.0)])
    assert read.sparklines(["run1"], "x", 10) == {"run1": [5.0, 4.0, 3.0]}
