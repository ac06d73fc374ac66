"""The grid of ranks and steps: the means that all points give, at any width."""

from __future__ import annotations

import numpy as np
import pytest

from runs.models import Run
from runs.records.points import read
from runs.records.points.read import grid
from tests.cast import Cast, make_run
from tests.series import write_series

pytestmark = pytest.mark.django_db(databases="__all__")
NAMES = ["rank/phase/forward_s", "rank/phase/backward_s"]


def logged(
    cast: Cast, num_ranks: int, num_steps: int, *, attempt: int = 1, first: int = 1, run: Run | None = None
) -> Run:
    made = run or make_run(cast)
    for place, name in enumerate(NAMES):
        for rank in range(num_ranks):
            values = [1000.0 * place + 10.0 * rank + step for step in range(first, first + num_steps)]
            write_series(made, name, values, labels={"rank": str(rank)}, attempt=attempt, first=first)
    return made


def test_few_steps_have_a_column_each(cast: Cast) -> None:
    found = grid(logged(cast, 3, 5).pk, NAMES)
    assert (found.ranks, found.first_step, found.width) == ([0, 1, 2], 1, 1)
    assert found.values[0].tolist() == [[10.0 * rank + step for step in range(1, 6)] for rank in range(3)]
    assert found.values[1, 2, 4] == 1025.0


@pytest.mark.parametrize(("num_steps", "columns"), [(100, 30), (5_000, 100), (40_000, 64)])
def test_many_steps_are_means_of_windows_of_a_power_of_two(cast: Cast, num_steps: int, columns: int) -> None:
    found = grid(logged(cast, 2, num_steps).pk, NAMES[:1], columns=columns)
    assert found.num_columns <= columns < 2 * found.num_columns + 4
    for rank in range(2):
        steps = np.arange(1, num_steps + 1)
        cells = (steps - found.first_step) // found.width
        means = np.bincount(cells, 10.0 * rank + steps) / np.bincount(cells)
        np.testing.assert_allclose(found.values[0, rank], means, rtol=1e-12)


def test_a_window_of_steps_is_cut_out(cast: Cast) -> None:
    found = grid(logged(cast, 2, 1_000).pk, NAMES[:1], (101, 200))
    assert (found.first_step, found.width, found.num_columns) == (101, 1, 100)
    assert found.values[0, 1, 0] == 111.0


def test_a_restart_shows_the_newest_and_missing_ranks_are_empty(cast: Cast) -> None:
    run = logged(cast, 2, 10)
    for name in NAMES:
        write_series(run, name, [7.0] * 10, labels={"rank": "0"}, attempt=2, first=6)
    found = grid(run.pk, NAMES[:1])
    assert found.values[0, 0].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, *[7.0] * 10]
    assert np.isnan(found.values[0, 1, 10:]).all()


def test_series_of_other_labels_and_runs_without_any_have_no_rows(cast: Cast) -> None:
    run = make_run(cast)
    write_series(run, NAMES[0], [1.0], labels={"rank": "0", "gpu": "1"})
    write_series(run, NAMES[0], [1.0], labels={"rank": "first"})
    assert grid(run.pk, NAMES).ranks == []


def test_what_is_not_finite_is_left_out_of_the_means(cast: Cast) -> None:
    run = make_run(cast)
    write_series(run, NAMES[0], [1.0, float("nan"), 3.0, float("inf")], labels={"rank": "0"})
    assert np.array_equal(grid(run.pk, NAMES[:1]).values[0, 0], [1.0, np.nan, 3.0, np.nan], equal_nan=True)


def test_the_short_summary_of_a_wide_run_has_its_losses(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "MOST_SUMMARISED", 2)
    wide, narrow = make_run(cast), make_run(cast)
    for value, name in enumerate(("a", "b", "train/loss")):
        write_series(wide, name, [value])
    write_series(narrow, "a", [5])
    found = read.short_summaries([wide.pk, narrow.pk, "nothing"])
    names = {run: list(summary) for run, summary in found.items()}
    assert names == {wide.pk: ["a", "train/loss"], narrow.pk: ["a"], "nothing": []}
    assert found[wide.pk]["train/loss"]["last"] == 2.0
