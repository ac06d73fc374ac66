"""Lists of runs: what they find, and that each is read along an index in its order instead of being sorted."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from runs.api.paging import page
from runs.finding.queries import COLUMNS
from runs.models import Job, Membership, Project, Role, Run
from runs.models.indexes import first_rows, is_none, one_of
from runs.presenting.listing import find_runs, last_runs
from runs.rights.access import visible_jobs
from runs.values.status import FINAL, LIVE, Status
from tests.cast import Cast, spec

MakeRun = Callable[..., Run]
FILTERS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "status": {"status": [Status.FAILED, Status.LOST]},
    "project": {"project": "default"},
    "tag": {"tags": ["a"]},
    "words": {"words": "none"},
    "archived": {"is_archived": True},
    "a filter": {
        "fitting": "status = FAILED user = mate not tag = a created > -7d train.steps > 1 summary.x.min = none"
    },
    "trials": {"has_trials": False},
    "trials and words": {"has_trials": False, "words": "none"},
    "a row for each sweep": {"has_trials": False, "has_best": True},
}


@pytest.mark.parametrize("sort", [sign + name for name in sorted({*COLUMNS.values()}) for sign in ("", "-")])
@pytest.mark.parametrize("filtered", FILTERS)
def test_no_list_of_runs_is_sorted(cast: Cast, make_run: MakeRun, sort: str, filtered: str) -> None:
    second = Project.objects.create(name="second")
    Membership.objects.create(project=second, user=cast.mate, role=Role.VIEWER)
    for number in range(4):
        make_run(name=f"run-{number}", project=second if number % 2 else cast.project)
    runs = find_runs(cast.mate, **FILTERS[filtered])
    first = page(find_runs(cast.mate), list, sort=sort, cursor=None, limit=2)
    for cursor in (None, first.next):
        with CaptureQueriesContext(connection) as asked:
            page(runs, list, sort=sort, cursor=cursor, limit=2)
        assert not sorted_scans(asked)


def sorted_scans(asked: CaptureQueriesContext) -> list[str]:
    """The plans of queries that sort runs or jobs, in SQLite; PostgreSQL decides by how many there are."""
    if connection.vendor != "sqlite":
        return []
    keys = [query["sql"] for query in asked if re.match(r'SELECT "runs_(run|job)"\."\w+" AS', query["sql"])]
    assert keys
    with connection.cursor() as cursor:
        plans = [cursor.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall() for sql in keys]
    steps = [step[3] for plan in plans for step in plan]
    return [step for step in steps if "TEMP B-TREE" in step]


def test_the_lists_of_the_home_page_are_not_sorted(cast: Cast, make_run: MakeRun) -> None:
    make_run(name="live")
    runs = find_runs(cast.mate)
    for query in (
        runs.filter(one_of("status", LIVE), is_none("local_id"), ended_at=None),
        runs.filter(one_of("status", FINAL), ended_at__isnull=False).order_by("-ended_at", "-pk"),
    ):
        with CaptureQueriesContext(connection) as asked:
            first_rows(query, 5)
        assert not sorted_scans(asked)


def test_runs_that_have_not_ended_are_read_in_their_order_where_sqlite_knows_how_many_there_are(
    cast: Cast, make_run: MakeRun
) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL skips through no index")
    make_run(name="live")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        cursor.execute("DELETE FROM sqlite_stat1 WHERE tbl = 'runs_run'")
        # Rows of an index, and how many of them share its first columns: many runs, few clusters.
        for name, stat in (("run_of_recipe", "100000 50000 50000 10"), ("run_live", "10000 1 1 1 1 1 1")):
            cursor.execute("INSERT INTO sqlite_stat1 VALUES ('runs_run', %s, %s)", [name, stat])
        cursor.execute("ANALYZE sqlite_schema")
    unended = find_runs(cast.owner).filter(ended_at=None)
    for query in (
        unended.filter(one_of("status", LIVE), is_none("local_id")),
        unended.filter(one_of("status", LIVE)).order_by("created_at", "pk"),
    ):
        with CaptureQueriesContext(connection) as asked:
            first_rows(query, 5)
        assert not sorted_scans(asked)


@pytest.mark.parametrize("sort", [sign + name for name in sorted({*COLUMNS.values()}) for sign in ("", "-")])
def test_pages_of_a_list_have_every_run_once_where_many_are_equal(cast: Cast, make_run: MakeRun, sort: str) -> None:
    made = {make_run(name=f"run-{number % 2}").pk for number in range(9)}
    assert sorted(walk(find_runs(cast.mate), sort)) == sorted(made)


def walk(runs: QuerySet[Run], sort: str) -> list[str]:
    found, cursor = [], None
    for _ in range(20):
        one = page(runs, list, sort=sort, cursor=cursor, limit=2)
        found += [run.pk for run in one.items]
        if (cursor := one.next) is None:
            break
    return found


def test_words_are_found_in_names_and_tags_whatever_their_case(cast: Cast, make_run: MakeRun) -> None:
    run = make_run(name="Baseline-7", tags=["Good Start", "größe"])
    make_run(name="other")
    for words in ("baseline", "LINE-7", "good st", "größe", run.pk[:4]):
        assert [one.pk for one in find_runs(cast.mate, words=words)] == [run.pk], words


def test_a_tag_is_found_exactly(cast: Cast, make_run: MakeRun) -> None:
    run = make_run(name="a", tags=["rare"])
    make_run(name='"rare"', tags=["Rare", "rare one"])
    assert [one.pk for one in find_runs(cast.mate, tags=["rare"])] == [run.pk]


def test_what_an_index_has_no_room_for_is_found_too(cast: Cast, make_run: MakeRun) -> None:
    tags = [f"tag number {number:02} of a run that has as many as it may" for number in range(50)]
    run = make_run(name="long", tags=tags)
    make_run(name="short")
    assert [one.pk for one in find_runs(cast.mate, tags=[tags[-1]])] == [run.pk]
    assert [one.pk for one in find_runs(cast.mate, words="NUMBER 49")] == [run.pk]


def test_the_last_run_of_a_job_may_be_of_an_older_version(cast: Cast, make_run: MakeRun) -> None:
    first, second = (
        Job.objects.create(project=cast.project, name="job", version=version, spec=spec()) for version in (1, 2)
    )
    never = Job.objects.create(project=cast.project, name="never", version=1, spec=spec())
    make_run(job=second)
    last = make_run(job=first)
    asked = {job.pk: (job.project_id, job.name) for job in (second, never)}
    assert {key: run.pk for key, run in last_runs(cast.mate, asked).items()} == {second.pk: last.pk}
    assert last_runs(cast.outsider, asked) == {}


def test_of_runs_that_began_together_and_of_jobs_that_share_a_name_each_job_has_its_own_last(
    cast: Cast, make_run: MakeRun
) -> None:
    second = Project.objects.create(name="second")
    Membership.objects.create(project=second, user=cast.mate, role=Role.VIEWER)
    jobs = [Job.objects.create(project=one, name="same", spec=spec()) for one in (cast.project, second)]
    runs = [make_run(project=job.project, job=job) for job in jobs for _ in range(2)]
    Run.objects.update(created_at=timezone.now())
    asked = {job.pk: (job.project_id, job.name) for job in jobs}
    last = {job.pk: max(run.pk for run in runs if run.job_id == job.pk) for job in jobs}
    assert {key: run.pk for key, run in last_runs(cast.mate, asked).items()} == last


def test_the_list_of_jobs_is_not_sorted(cast: Cast) -> None:
    Job.objects.create(project=cast.project, name="one", spec=spec())
    with CaptureQueriesContext(connection) as asked:
        first_rows(visible_jobs(cast.mate).newest(), 5)
    assert not sorted_scans(asked)
