"""Cells of the table of runs, groups, distributions and names; on both databases."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from runs.finding import columns
from runs.finding.columns import ColumnName, GroupFigure
from runs.finding.language import FilterError
from runs.models import Run
from runs.presenting.listing import find_runs
from runs.values.status import Status
from tests.cast import Cast, spec
from tests.series import write_series

MakeRun = Callable[..., Run]


@pytest.fixture
def four(cast: Cast, make_run: MakeRun) -> dict[str, Run]:
    """Four runs of two widths, of which one has a text where the others have numbers, and one has nothing."""
    made = {
        "a": make_run(name="a", tags=["x", "y"], status=Status.FAILED,
                      spec=spec(train={"learning_rate": 0.1, "compile": True})),
        "b": make_run(name="b", spec=spec(train={"learning_rate": 0.3}), created_by=cast.owner),
        "c": make_run(name="c", spec=spec(train={"learning_rate": "auto"})),
        "d": make_run(name="d", spec=spec(train={}), created_by=None),
    }  # fmt: skip
    write_series(made["a"], "val/accuracy", [0.5, 0.7, 0.6])
    write_series(made["b"], "val/accuracy", [0.9, float("nan")])
    return made


def test_cells_are_those_of_the_run(four: dict[str, Run], cast: Cast) -> None:
    names = ["status", "user", "project", "tag", "train.learning_rate", "train.compile", "summary.val/accuracy.best",
             "summary.val/accuracy.last", "created", "ended"]  # fmt: skip
    found = columns.values(list(four.values()), names)
    a, b, c, d = (found[run.pk] for run in four.values())
    assert (a["status"], a["tag"], a["project"], a["train.compile"]) == ("FAILED", "x, y", "default", "true")
    assert [one["user"] for one in (a, b, d)] == ["mate", "owner", None]
    assert [one["train.learning_rate"] for one in (a, b, c, d)] == [0.1, 0.3, "auto", None]
    assert [one["summary.val/accuracy.best"] for one in (a, b, c)] == [0.7, 0.9, None]
    assert [one["summary.val/accuracy.last"] for one in (a, b)] == [0.6, "NaN"]
    assert a["created"] == four["a"].created_at.timestamp() and d["ended"] is None


def test_a_column_whose_field_there_is_not_is_refused(four: dict[str, Run], cast: Cast) -> None:
    runs = find_runs(cast.mate)
    for ask in (
        lambda: columns.values(list(runs), ["name", "train.lerning_rate"]),
        lambda: columns.groups(runs, ["nosuch"], []),
        lambda: columns.distribution(runs, "summary.loss"),
    ):
        with pytest.raises(FilterError):
            ask()


def test_groups_count_and_have_figures_over_the_runs_that_have_them(four: dict[str, Run], cast: Cast) -> None:
    found = columns.groups(find_runs(cast.owner), ["project"], ["summary.val/accuracy.best", "train.learning_rate"])
    assert [(group.key, group.count) for group in found] == [(("default",), 4)]
    assert found[0].figures["summary.val/accuracy.best"] == GroupFigure(2, pytest.approx(0.8), 0.9, 0.7, 0.9)
    assert found[0].figures["train.learning_rate"] == GroupFigure(2, pytest.approx(0.2), 0.1, 0.1, 0.3)


def test_groups_are_by_numbers_texts_and_none_together(four: dict[str, Run], cast: Cast, make_run: MakeRun) -> None:
    make_run(name="e", spec=spec(train={"learning_rate": 0.3}))
    found = columns.groups(find_runs(cast.owner), ["train.learning_rate"], ["summary.val/accuracy.max"])
    assert [(group.key[0], group.count) for group in found] == [(0.3, 2), (0.1, 1), ("auto", 1), (None, 1)]
    assert [group.figures["summary.val/accuracy.max"].count for group in found] == [1, 1, 0, 0]
    assert len(columns.groups(find_runs(cast.owner), ["train.learning_rate"], [], limit=2)) == 2


def test_groups_of_a_time_are_days(four: dict[str, Run], cast: Cast) -> None:
    day = four["a"].created_at.date().isoformat()
    Run.objects.update(created_at=four["a"].created_at)
    found = columns.groups(find_runs(cast.owner), ["created", "status"], [])
    assert [(group.key, group.count) for group in found] == [((day, "QUEUED"), 3), ((day, "FAILED"), 1)]


def test_a_distribution_has_numbers_texts_and_what_is_missing(four: dict[str, Run], cast: Cast) -> None:
    found = columns.distribution(find_runs(cast.owner), "train.learning_rate", bins=2)
    assert found is not None
    assert found.edges == pytest.approx([0.1, 0.2, 0.3]) and found.counts == [1, 1]
    assert (found.texts, found.num_texts, found.num_missing) == ([("auto", 1)], 1, 1)
    write_series(four["c"], "val/accuracy", [float("inf")])
    of_series = columns.distribution(find_runs(cast.owner), "summary.val/accuracy.max", bins=1)
    assert of_series is not None and (of_series.counts, of_series.num_missing) == ([2], 2)  # an infinity has no range
    assert columns.distribution(find_runs(cast.owner), "summary.nosuch.min") is None
    assert columns.distribution(find_runs(cast.outsider), "status") is None


def test_names_are_the_fields_of_the_runs_that_one_sees(four: dict[str, Run], cast: Cast) -> None:
    known = columns.names(find_runs(cast.owner))
    assert known[0] == ColumnName("status", "text") and ColumnName("created", "time") in known
    assert ColumnName("train.learning_rate", "text") in known or ColumnName("train.learning_rate", "number") in known
    assert [one.name for one in columns.names(find_runs(cast.owner), "ACCURACY.M")] == [
        "summary.val/accuracy.min", "summary.val/accuracy.max", "summary.val/accuracy.mean",
    ]  # fmt: skip
    assert columns.names(find_runs(cast.outsider), "accuracy") == []
    assert len(columns.names(find_runs(cast.owner), limit=3)) == 3
