"""``trainyard.Api``: tables of points, whole and exact, with a row for each time that a step came."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from trainyard.rest import api


def series(name: str, steps: list[int], values: list[float]) -> api._Series:
    times = [10.0 + step for step in steps]
    return api._Series("r", name, np.array(steps), np.array(times), np.array(values))


def test_series_with_the_same_steps_are_columns_as_they_lie() -> None:
    table = api.wide("r", [series("a", [1, 2], [0.1, math.nan]), series("b", [1, 2], [3.0, 4.0])])
    assert table.column_names == ["run", "step", "time", "a", "b"]
    assert str(table.to_pylist()) == str(
        [
            {"run": "r", "step": 1, "time": 11.0, "a": 0.1, "b": 3.0},
            {"run": "r", "step": 2, "time": 12.0, "a": math.nan, "b": 4.0},
        ]
    )


def test_what_was_not_logged_is_missing_and_a_nan_is_none_of_it() -> None:
    table = api.wide("r", [series("a", [1, 3], [0.1, math.nan]), series("b", [2, 3], [5.0, 6.0])])
    assert table["step"].to_pylist() == [1, 2, 3]
    assert str(table["a"].to_pylist()) == "[0.1, None, nan]"
    assert table["b"].to_pylist() == [None, 5.0, 6.0]


def test_a_step_that_comes_again_is_another_row() -> None:
    table = api.wide("r", [series("a", [1, 1, 1, 2], [1.0, 2.0, 3.0, 4.0]), series("b", [1, 2, 2], [5.0, 6.0, 7.0])])
    found = [(row["step"], row["a"], row["b"]) for row in table.to_pylist()]
    assert found == [(1, 1.0, 5.0), (1, 2.0, None), (1, 3.0, None), (2, 4.0, 6.0), (2, None, 7.0)]


def test_labels_are_part_of_a_columns_name() -> None:
    assert api.column_name("loss", {}) == "loss"
    assert api.column_name("util", {"node": "a", "gpu": "0"}) == "util{gpu=0,node=a}"


def test_a_form_that_there_is_not_is_named_before_anything_is_asked() -> None:
    run = api.ApiRun(None, {"id": "x"})  # type: ignore[arg-type,typeddict-item]
    with pytest.raises(ValueError, match="format='excel' is none of pandas, polars, arrow"):
        run.history(format="excel")  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="a run has no 'colour'; it has id"):
        _ = run.colour


def test_a_table_without_points_has_its_columns() -> None:
    assert api.wide("r", [series("a", [], [])]).schema.names == ["run", "step", "time", "a"]
    assert isinstance(api.wide("r", [series("a", [], [])]), pa.Table)
