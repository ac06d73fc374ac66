"""Columns of all runs in memory: they are what the database has, whatever has changed since they were made."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import timedelta

import numpy as np
import pytest
from django.utils import timezone

from runs.finding import columns, index, queries
from runs.finding.fields import read_field
from runs.finding.index import Building, Index
from runs.finding.language import FilterText
from runs.finding.queries import ByFields, order_of
from runs.models import Run
from runs.presenting.listing import find_runs
from runs.records.metrics.models import Telemetry
from runs.values.status import Status
from tests.cast import Cast, make_cast
from tests.cast import make_run as make_one
from tests.runs.api.conftest import Api
from tests.series import write_series

MakeRun = Callable[..., Run]


def found(cast: Cast, text: str) -> str:
    return " ".join(sorted(run.name for run in find_runs(cast.mate, fitting=text)))


def test_a_run_that_is_new_and_one_that_is_deleted_count_at_once(cast: Cast, make_run: MakeRun) -> None:
    first = make_run(name="first", config={"lr": 1})
    assert found(cast, "config.lr = 1") == "first"
    make_run(name="second", config={"lr": 1}), make_run(name="other", config={"lr": "auto"})
    assert found(cast, "config.lr = 1") == "first second"
    assert (found(cast, "config.lr != 1"), found(cast, "config.lr ~ AUT")) == ("other", "other")
    first.delete()
    make_run(name="none")
    assert (found(cast, "config.lr = 1"), found(cast, "config.lr = none")) == ("second", "none")


def test_a_configuration_that_changed_is_read_again(cast: Cast, make_run: MakeRun) -> None:
    run, other = make_run(name="a", config={"lr": 1}), make_run(name="b", config={"lr": 1})
    assert found(cast, "config.lr = 1") == "a b"
    for lr in (2, 3):
        Run.objects.filter(pk=run.pk).update(config={"lr": lr}, described_at=timezone.now())
        assert (found(cast, f"config.lr = {lr}"), found(cast, "config.lr = 1")) == ("a", "b")
    Run.objects.filter(pk=other.pk).update(
        config={}, described_at=timezone.now() - timedelta(seconds=30)
    )  # a late clock
    assert found(cast, "config.lr = none") == "b"


def test_figures_of_a_run_that_goes_on_follow_within_seconds(
    cast: Cast, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, still = make_run(name="a", status=Status.RUNNING), make_run(name="b")
    write_series(run, "loss", [5.0])
    write_series(still, "loss", [5.0])
    assert found(cast, "summary.loss.min = 5") == "a b"
    write_series(run, "loss", [3.0], first=2)
    Telemetry.objects.filter(run_id=run.pk).update(cursor=2)
    assert found(cast, "summary.loss.min = 5") == "a b"  # it was looked at a moment ago
    monkeypatch.setattr(index, "REFRESH_S", 0.0)
    assert (found(cast, "summary.loss.last = 3"), found(cast, "summary.loss.min = 5")) == ("a", "b")
    write_series(run, "loss", [9.0], attempt=2, first=1)  # which hides what the first attempt had
    Telemetry.objects.filter(run_id=run.pk).update(cursor=3)
    assert (found(cast, "summary.loss.min = 9"), found(cast, "summary.loss.max = 9")) == ("a", "a")


def test_columns_of_another_database_are_forgotten(cast: Cast, make_run: MakeRun) -> None:
    own, run = Index(), make_run(config={"lr": 1})
    field = read_field(FilterText("config.lr", 0))
    assert own.column(field).cell(run.number) == 1
    Run.objects.all().delete()
    other = make_run(number=run.number, config={"lr": 2})
    assert own.column(field).cell(other.number) == 2


def test_a_number_that_is_committed_late_is_not_missed(cast: Cast, make_run: MakeRun) -> None:
    own, field = Index(), read_field(FilterText("config.lr", 0))
    newest = make_run(number=1_000_000, config={"lr": 1})
    assert own.column(field).cell(newest.number) == 1
    late = make_run(number=999_999, config={"lr": 2})
    assert own.column(field).cell(late.number) == 2


@pytest.mark.django_db(transaction=True)
def test_of_many_runs_a_thread_makes_the_column_and_who_asks_meanwhile_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cast = make_cast()
    for number in range(5):
        make_one(cast, name=f"run-{number}", config={"lr": number})
    monkeypatch.setattr(index, "index", own := Index())
    monkeypatch.setattr(queries, "index", own)
    monkeypatch.setattr(index, "AT_ONCE", 2)
    monkeypatch.setattr(index, "WAIT_S", 0.0)
    with pytest.raises(Building, match="is being made"):
        found(cast, "config.lr < 2")
    assert Api(cast.mate)("GET", "/runs?filter=config.lr < 2").status_code in (200, 503)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            assert found(cast, "config.lr < 2") == "run-0 run-1"
            break
        except Building:
            time.sleep(0.05)
    make_one(cast, name="new", config={"lr": 1})
    assert found(cast, "config.lr < 2") == "new run-0 run-1"


@pytest.mark.parametrize("sort", ["config.a", "-config.a", "config.b,-config.a", "-config.b,summary.loss.min"])
def test_the_nearest_of_all_runs_are_the_first_of_all_in_order(
    cast: Cast, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, sort: str
) -> None:
    """Where the runs of a query are looked up among the nearest, and where all are put in order, pages are the same."""
    chance = random.Random(7)
    for number in range(40):
        config = {"a": chance.choice([1, 2, 3, "x", "y", None]), "b": chance.random()}
        run = make_run(name=f"run-{number}", config=config)
        if number % 3:
            write_series(run, "loss", [chance.random()])
    order, runs = order_of(sort), find_runs(cast.mate, fitting="config.b > 0.2")
    assert isinstance(order, ByFields)
    whole = order.places(runs, None, 100)
    assert [key for _, key in whole] == expected(runs, order)
    monkeypatch.setattr(queries, "MANY", 30)
    after, walked = None, []
    while part := order.places(runs, after, 2):
        walked += part
        after = order.place(*part[-1])
    assert walked == whole
    for first, count in ((0, 2), (3, 2), (30, 100), (100, 2)):
        assert order.ids(runs, first, count) == [key for _, key in whole[first : first + count]]


def expected(runs: object, order: ByFields) -> list[str]:
    """The same order by Python's own sorting of the cells of rows."""
    rows = list(runs)  # type: ignore[call-overload]
    cells = columns.values(rows, [field.name for field in order.fields])
    rows.sort(key=lambda run: run.pk)
    for field, is_descending in reversed(list(zip(order.fields, order.are_descending, strict=True))):
        kinds: dict[int, list[Run]] = {0: [], 1: [], 2: []}
        for run in rows:
            cell = cells[run.pk][field.name]
            kinds[2 if cell is None else int(isinstance(cell, str))].append(run)
        for kind in (0, 1):
            kinds[kind].sort(key=lambda run: cells[run.pk][field.name], reverse=is_descending)  # type: ignore[arg-type, return-value]
        rows = [*kinds[0], *kinds[1], *kinds[2]]
    return [run.pk for run in rows]


def test_what_a_column_holds_is_what_it_was_given() -> None:
    column = index.Column.empty(4)
    for place, cell in enumerate((1.5, "b", None, "a")):
        column.put(place, cell)
    assert [column.cell(place) for place in range(4)] == [1.5, "b", None, "a"]
    assert np.argsort(column.keys(is_descending=False)).tolist() == [0, 3, 1, 2]
    assert np.argsort(column.keys(is_descending=True)).tolist() == [0, 1, 3, 2]
    assert column.key_of("aa", is_descending=False) > column.key_of("a", is_descending=False)


def test_few_runs_are_looked_up_and_many_are_looked_at(cast: Cast, make_run: MakeRun) -> None:
    runs = [make_run(name=f"run-{number}", number=1_000 * (number + 1)) for number in range(3)]
    for wanted in ([0], [0, 1, 2], []):
        mask = np.zeros(5_000, np.bool_)
        mask[[runs[place].number for place in wanted]] = True
        assert Run.objects.filter(index.numbered(mask)).count() == len(wanted)
        assert Run.objects.filter(~index.numbered(mask)).count() == 3 - len(wanted)
    assert Run.objects.filter(index.numbered(np.ones(1_500, np.bool_))).count() == 1  # the others have no byte


def test_a_mean_is_over_the_points_that_are_seen(
    cast: Cast, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "REFRESH_S", 0)
    few, many, odd = (make_run(name=name) for name in ("few", "many", "odd"))
    write_series(few, "loss", [1.0, 2.0, 6.0])
    write_series(many, "loss", [float(step % 10) for step in range(5000)])
    write_series(odd, "loss", [float("nan"), 7.0])
    make_run(name="none")
    assert found(cast, "summary.loss.mean = 3") == "few"
    assert found(cast, "summary.loss.mean > 4.49 and summary.loss.mean < 4.51") == "many"
    assert found(cast, "summary.loss.mean = 7") == "odd"
    assert found(cast, "summary.loss.mean = none") == "none"
    write_series(few, "loss", [11.0], first=4)
    Telemetry.objects.filter(run_id=few.pk).update(cursor=2)
    assert found(cast, "summary.loss.mean = 5") == "few"
    [cells] = columns.values([many], ["summary.loss.mean", "summary.loss.max"]).values()
    assert cells == {"summary.loss.mean": pytest.approx(4.5), "summary.loss.max": 9.0}
    order = order_of("-summary.loss.mean")
    assert isinstance(order, ByFields)
    assert list(order.ids(find_runs(cast.mate), 0, 2)) == [odd.pk, few.pk]
