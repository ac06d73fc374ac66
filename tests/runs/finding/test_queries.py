"""Which runs fit a filter, and in which order they come; on both databases."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from runs.api.paging import page
from runs.finding.language import FilterError
from runs.finding.queries import order_of
from runs.models import Run
from runs.presenting.listing import find_runs
from runs.records.points.read import figures, summaries
from runs.values.status import Status
from tests.cast import Cast, spec
from tests.series import write_series

MakeRun = Callable[..., Run]


def names(cast: Cast, text: str) -> str:
    return " ".join(sorted(run.name for run in find_runs(cast.mate, fitting=text)))


@pytest.fixture
def three(cast: Cast, make_run: MakeRun) -> dict[str, Run]:
    """Three runs: one has failed, one is queued and has nothing, one is live."""
    one = make_run(
        name="one", tags=["paper", 'a "b", c'], status=Status.FAILED,
        config={"width": 64, "optimizer": {"name": "muon"}},
        spec=spec(train={"learning_rate": 0.001, "optimizer": "muon", "compile": True}, resources={"nodes": 2}),
    )  # fmt: skip
    two = make_run(name="two", created_by=None, spec=spec(train={"learning_rate": None}))
    three = make_run(
        name="three", tags=["größe"], status=Status.RUNNING, created_by=cast.owner,
        spec=spec(train={"learning_rate": 0.01, "optimizer": "adamw", "compile": False}, resources={"nodes": "2"},
                  task={"script": "train.py", "arguments": {"--width": 64}}),
    )  # fmt: skip
    write_series(one, "val/loss", [3.0, 1.5, 2.5])
    write_series(three, "val/loss", [4.0, 3.5])
    write_series(one, "val/accuracy", [0.5, 0.75, 0.25])
    now = timezone.now()
    ages = {one: 1, two: 10, three: 20}
    for run, days in ages.items():
        Run.objects.filter(pk=run.pk).update(created_at=now - timedelta(days=days))
    return {run.name: run for run in ages}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", "one three two"),
        ("status = FAILED and train.learning_rate < 0.01", "one"),
        ("summary.val/loss.min < 2", "one"),
        ("summary.val/loss.last >= 2.5", "one three"),
        ("summary.val/loss.max = 4", "three"),
        ("summary.val/loss.best in (1.5, 3.5)", "one three"),
        ("summary.val/accuracy.best = 0.75", "one"),
        ("summary.val/loss.min = none", "two"),
        ("not summary.val/loss.min < 2", "three two"),
        ("status in (failed, queued)", "one two"),
        ("status = live", "three two"),
        ("status != FAILED", "three two"),
        ("name = one", "one"),
        ("name ~ TW", "two"),
        ("project = default and not project ~ nope", "one three two"),
        ("project = nope", ""),
        ("user = owner", "three"),
        ("user != owner", "one two"),
        ("user = none", "two"),
        ("user ~ MAT", "one"),
        ("tag = paper", "one"),
        ("tag = pap", ""),
        ("tag ~ PAP", "one"),
        ("tag = größe or tag = \"a \\\"b\\\", c\"", "one three"),
        ("größe", "three"),
        ("ONE paper", "one"),
        ("one two", ""),
        ("created > -7d", "one"),
        ("created <= -7d created > -2w", "two"),
        ("ended = none", "three two"),
        ("ended > -1h", "one"),
        ("not ended > -1h", "three two"),
        ("train.learning_rate = 1e-3", "one"),
        ("train.learning_rate != 0.001", "three two"),
        ("train.learning_rate = none", "two"),
        ("train.optimizer = muon", "one"),
        ("train.optimizer ~ ADAM or train.optimizer in (muon, sgd)", "one three"),
        ("train.compile = true", "one"),
        ("train.compile = false", "three"),
        ("resources.nodes = 2", "one"),
        ('resources.nodes = "2"', "three"),
        ("resources.nodes > 1", "one"),
        ("task.arguments.--width >= 64", "three"),
        ("config.width < 100", "one"),
        ("config.optimizer.name = muon", "one"),
        ("config.width = none", "three two"),
        ("config.no.such.thing > 0", ""),
    ],
)  # fmt: skip
def test_runs_are_found_by_each_kind_of_field(three: dict[str, Run], cast: Cast, text: str, wanted: str) -> None:
    assert names(cast, text) == wanted


def test_a_day_is_the_whole_of_it(cast: Cast, make_run: MakeRun) -> None:
    for day in (30, 31):
        run = make_run(name=f"on-{day}")
        Run.objects.filter(pk=run.pk).update(created_at=datetime(2026, 1, day, 12, tzinfo=UTC))
    for text, wanted in {
        "created = 2026-01-30": "on-30",
        "created <= 2026-01-30": "on-30",
        "created > 2026-01-30": "on-31",
        "created >= 2026-01-31": "on-31",
        "created < 2026-01-31": "on-30",
        "created = 2026-01-30T13:00+01:00": "on-30",
        "created > 2026-01-31T11:59": "on-31",
    }.items():
        assert names(cast, text) == wanted, text


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("train.lerning_rate < 1", 0, "the nearest is train.learning_rate"),
        ("x and statuss = FAILED", 6, "the nearest is status"),
        ("sumary.val/loss.min < 1", 0, "the nearest is summary.val/loss.min"),
        ("status = FAILD", 9, "the nearest is FAILED"),
        ("status ~ FAIL", 9, "it takes = != and in"),
        ("name < x", 7, "name is a text"),
        ("created > soon", 10, "soon is no time"),
        ("created ~ -7d", 10, "created is a time"),
        ("created > -999999w", 10, "is no time"),
        ("train.optimizer < muon", 18, "compares numbers"),
        ("train.steps < 1e999", 14, "larger than any number"),
        ("summary.val/loss < 2", 0, "last, min, max, mean or best"),
        ("summary.val/loss.min < low", 23, "is a number"),
        (" ".join(f"config.s{number} < 1" for number in range(17)), 243, "at most 16 fields"),
        ('"config.a\\"b" = 1', 0, "is no path"),
        ("config. = 1", 0, "is no path"),
    ],
)
def test_what_no_field_means_is_refused_at_its_character(cast: Cast, text: str, position: int, words: str) -> None:
    with pytest.raises(FilterError) as refused:
        names(cast, text)
    assert (refused.value.position, words in refused.value.message) == (position, True), refused.value


def test_a_filter_finds_nothing_that_the_person_does_not_see(three: dict[str, Run], cast: Cast) -> None:
    for text in (
        "one",
        "not nothing",
        "name != x",
        "summary.val/loss.min < 9",
        "project != x",
        "train.optimizer = muon",
    ):
        assert not find_runs(cast.outsider, fitting=text).exists(), text


def test_figures_are_those_of_the_run_s_document(cast: Cast, make_run: MakeRun) -> None:
    """Also where a newer attempt hides points of an older one, and where series differ by their labels."""
    run, other = make_run(), make_run()
    write_series(run, "loss", [9.0, 1.0, 8.0], attempt=1)
    write_series(run, "loss", [5.0, 6.0], attempt=2, first=2)  # hides the 1 and the 8
    write_series(other, "loss", [3.0, float("nan")], labels={"rank": "0"})
    write_series(other, "loss", [4.0, 2.0], labels={"rank": "1"})
    documents = {pk: one["loss"] for pk, one in summaries([run.pk, other.pk]).items()}
    found = {pk: one._asdict() for pk, one in figures("loss")}
    assert found == {pk: {name: one[name] for name in ("last", "min", "max")} for pk, one in documents.items()}
    assert {pk: one["min"] for pk, one in found.items()} == {run.pk: 5.0, other.pk: 2.0}
    assert {pk: one["last"] for pk, one in found.items()} == {run.pk: 6.0, other.pk: 2.0}


SORTED = {
    "summary.val/loss.min": ["one", "three", "two"],
    "-summary.val/loss.min": ["three", "one", "two"],
    "train.learning_rate": ["one", "three", "two"],
    "-train.learning_rate": ["three", "one", "two"],
    "user": ["one", "three", "two"],
    "-user": ["three", "one", "two"],
    "created": ["three", "two", "one"],
    "-created": ["one", "two", "three"],
    "name": ["one", "three", "two"],
    "status": ["one", "two", "three"],
    "project,-name": ["two", "three", "one"],
    "-project, summary.val/loss.last": ["one", "three", "two"],
    "train.compile,name": ["three", "one", "two"],
    "resources.nodes,-created": ["two", "one", "three"],
    "-resources.nodes,created": ["one", "two", "three"],
    'user,-"summary.val/loss.min"': ["one", "three", "two"],
}


@pytest.mark.parametrize("sort", SORTED)
def test_runs_are_sorted_and_what_has_no_value_comes_last(three: dict[str, Run], cast: Cast, sort: str) -> None:
    assert walk(cast, sort) == SORTED[sort]


@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize(
    "name",
    [
        "summary.loss.last",
        "train.learning_rate",
        "ended",
        "project",
        "user",
        "status,-summary.loss.max,ended",
        "user,user",
    ],
)
def test_pages_have_each_run_once_where_many_are_equal_or_have_none(
    cast: Cast, make_run: MakeRun, name: str, sign: str
) -> None:
    made = set()
    for number in range(9):
        some = {"learning_rate": 0.5} if number % 3 else {}
        status = Status.FAILED if number % 2 else Status.QUEUED
        run = make_run(name=f"run-{number}", spec=spec(train=some), status=status)
        if number % 3:
            write_series(run, "loss", [float(number % 2)])
        made.add(run.name)
    Run.objects.exclude(ended_at=None).update(ended_at=timezone.now())
    found = walk(cast, sign + name)
    assert len(found) == 9 and set(found) == made


def walk(cast: Cast, sort: str) -> list[str]:
    """The names on all pages, two at a time."""
    found: list[str] = []
    cursor = None
    for _ in range(20):
        one: Any = page(find_runs(cast.mate), list, sort=order_of(sort), cursor=cursor, limit=2)
        found += [run.name for run in one.items]
        if (cursor := one.next) is None:
            break
    return found


@pytest.mark.parametrize(
    "sort",
    ["tag", "-tag", "spec", "", "train/loss", "summary.loss", "name,", "name,,user", 'name,"user',
     'name"x"', "status,tag", ",".join(["name"] * 9)],
)  # fmt: skip
def test_what_runs_cannot_be_sorted_by_is_refused(cast: Cast, sort: str) -> None:
    with pytest.raises(FilterError) as refused:
        order_of(sort)
    assert refused.value.path == "sort"
