"""Charts as pictures: what is drawn, and what numbers stand beside it."""

import re
from typing import Any

import numpy as np

from dashboard.pages.shared.still import HEIGHT, LEFT, RIGHT, TOP, WIDTH, StillLine, still_chart, still_charts
from runs.records.points.read import Curve


def raw(values: list[float], *, run: str = "r1", name: str = "train/loss", attempt: int = 1, **labels: str) -> Curve:
    columns = {"step": np.arange(len(values)), "time": np.zeros(len(values)), "value": np.array(values, float)}
    return Curve(run, name, labels, attempt, "raw", columns)


def paths(text: str) -> list[str]:
    return re.findall(r'<path d="([^"]*)" fill="none"', text)


def test_a_line_goes_from_corner_to_corner_and_says_its_last_value() -> None:
    text = still_chart("train/loss", [StillLine(2, "adam", [raw([1.0, 3.0])])])
    assert paths(text) == [f"M{LEFT:.1f} {HEIGHT - 24:.1f}L{WIDTH - RIGHT:.1f} {TOP:.1f}"]
    assert "var(--series-3)" in text
    assert "adam <b>3</b>" in text


def test_a_value_that_is_not_finite_leaves_a_gap() -> None:
    (path,) = paths(still_chart("loss", [StillLine(0, "a", [raw([1.0, float("nan"), 2.0, 3.0])])]))
    assert path.count("M") == 2


def test_buckets_are_a_mean_over_a_band() -> None:
    columns: dict[str, Any] = {
        "step": np.array([0, 10]), "time": np.zeros(2), "count": np.array([10, 1]), "last": np.array([9, 2.5]),
        "min": np.array([0.0, 2.0]), "max": np.array([4.0, 2.0]), "mean": np.array([1.0, 2.0]),
    }  # fmt: skip
    text = still_chart("loss", [StillLine(0, "a", [Curve("r1", "loss", {}, 1, "buckets", columns)])])
    assert len(paths(text)) == 1
    assert 'opacity=".16"' in text
    assert "<b>2.50</b>" in text


def test_ticks_are_round_numbers_within_the_values() -> None:
    text = still_chart("loss", [StillLine(0, "a", [raw([0.0, 1.0, 0.3])])])
    assert re.findall(r'text-anchor="end">([^<]*)', text) == ["0", "0.2", "0.4", "0.6", "0.8", "1"]


def test_one_value_is_a_point_and_none_is_said() -> None:
    assert "<circle" in still_chart("loss", [StillLine(0, "a", [raw([5.0])])])
    assert "No values." in still_chart("loss", [StillLine(0, "a", [raw([float("nan")])])])
    assert "No values." in still_chart("loss", [])


def test_names_are_text() -> None:
    text = still_chart("<b>loss", [StillLine(0, "<script>", [raw([1.0, 2.0])])])
    assert "<script>" not in text
    assert "<b>loss" not in text


def test_a_figure_for_each_name_has_a_line_for_each_run_and_labels() -> None:
    curves = [raw([1, 2]), raw([3, 4], run="r2"), raw([1, 2], name="speed", rank="0"), raw([5, 1], run="gone")]
    text = still_charts(["train/loss", "speed"], curves, {"r1": (0, "one"), "r2": (1, "two")})
    assert re.findall(r"<figcaption>([^<]*)", text) == ["train/loss", "speed"]
    assert re.findall(r"</svg>([^<]*) <b>([^<]*)", text) == [("one", "2"), ("two", "4"), ("one rank 0", "2")]
