"""Runs that a list shows: one place for the table of the site and for REST."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from django.db import connection
from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Subquery, TextField, Value, Window
from django.db.models.functions import Cast, Coalesce, Lower, RowNumber, StrIndex
from django.db.models.lookups import GreaterThan

from runs.models import Job, Project, Run
from runs.models.indexes import one_of
from runs.models.runs import SEARCHED
from runs.models.sweeps.trial import Trial, TrialRun
from runs.rights.access import Someone, visible_runs
from runs.values.status import LIVE, Status

# What a list can be sorted by; none of these columns is ever empty, so that a cursor can stand between any two rows.
SORTS = ("created_at", "name", "status")
GROUPS: dict[str, frozenset[Status]] = {"live": LIVE, "ended": frozenset(Status) - LIVE}


class BadQuery(ValueError):
    """A filter or an order that no list understands."""


def find_runs(
    user: Someone,
    *,
    status: Iterable[Status] = (),
    project: str = "",
    tags: Iterable[str] = (),
    words: str = "",
    is_archived: bool = False,
    has_trials: bool = True,
) -> QuerySet[Run]:
    """Return the visible runs that have one of the statuses, all of the tags, and the words in name, tag or id; where
    not ``has_trials``, of the trials of sweeps only one whose whole id the words are.

    They are to be read in the order of an index (``ListIndex``) until a page is full: the filters are such that no
    database takes another index and sorts what it finds, which may be all runs.
    """
    runs = visible_runs(user).filter(archived_at__isnull=not is_archived)
    if statuses := list(status):
        runs = runs.filter(one_of("status", statuses))
    if project:
        named = Project.objects.filter(Q(name=project) | Q(pk=project))
        runs = runs.filter(one_of("project_id", list(named.values_list("pk", flat=True))))
    for number, tag in enumerate(tags):
        runs = _with_tag(runs, tag, f"tag_{number}")
    if words := words.strip():
        in_text = holds(words)
        if (escaped := json.dumps(words)[1:-1]) != words:
            # SQLite keeps tags as json.dumps wrote them, with escapes for what is not ASCII; PostgreSQL without.
            in_text |= holds(escaped)
        runs = runs.filter(in_text | Q(pk__startswith=words))
    if not has_trials:
        same = {"run": OuterRef("pk")}
        is_trial = Q(Exists(Trial.objects.filter(**same))) | Q(Exists(TrialRun.objects.filter(**same)))
        runs = runs.filter(~is_trial | Q(pk=words) if words else ~is_trial)
    return runs


class Trials(NamedTuple):
    num: int
    num_sweeps: int


def trials_among(runs: QuerySet[Run], *, words: str = "") -> Trials:
    """Count what ``find_runs`` leaves out of ``runs`` where its list has no trials."""
    tried = Trial.objects.exclude(run=None).order_by().values("run")
    tried = tried.union(TrialRun.objects.exclude(run=None).order_by().values("run"))
    found = runs.order_by().filter(pk__in=tried).exclude(pk=words.strip())
    sweep = Coalesce("trial__sweep", "trial_seed__trial__sweep")
    return Trials(**found.aggregate(num=Count("pk"), num_sweeps=Count(sweep, distinct=True)))


class LastRun(NamedTuple):
    pk: str
    status: str
    created_at: datetime


def last_runs(user: Someone, jobs: Mapping[str, tuple[str, str]]) -> dict[str, LastRun]:
    """The newest visible run of each job, of whatever version, by the job's id. ``jobs``: project and name by id."""
    keys = {named: pk for pk, named in jobs.items()}
    newest = visible_runs(user).filter(job=OuterRef("pk")).order_by("-created_at", "-pk").values("pk")[:1]
    versions = Job.objects.filter(name__in={name for _, name in keys}, project__in={project for project, _ in keys})
    of_versions = Run.objects.filter(pk__in=versions.order_by().annotate(last=Subquery(newest)).values("last"))
    same_job = (F("job__project_id"), F("job__name"))
    place = Window(RowNumber(), partition_by=same_job, order_by=(F("created_at").desc(), F("pk").desc()))
    rows = of_versions.order_by().annotate(place=place).filter(place=1)
    columns = ("job__project_id", "job__name", *LastRun._fields)
    return {
        keys[project, name]: LastRun(*run)
        for project, name, *run in rows.values_list(*columns)
        if (project, name) in keys
    }


def statuses_of(word: str) -> frozenset[Status]:
    """Return the statuses that a word means: one, or the group ``live`` or ``ended``. Raises BadQuery."""
    if word.lower() in GROUPS:
        return GROUPS[word.lower()]
    if word.upper() in Status.__members__:
        return frozenset({Status(word.upper())})
    raise BadQuery(f"There is no status {word!r}.")


def holds(text: str) -> Q:
    """Return whether name or tags hold the text, whatever its case. Of the few runs with a long one an index has not
    all."""
    words = Lower(Value(text))
    found = Q(GreaterThan(StrIndex("found_by", words), 0))
    long = Run.objects.filter(GreaterThan(StrIndex(SEARCHED, words), 0), is_long=True)
    keys = list(long.order_by().values_list("pk", flat=True))
    return found | Q(pk__in=keys) if keys else found


def check_sort(sort: str) -> str:
    """Return ``sort``, a column with or without a minus. Raises BadQuery."""
    if sort.removeprefix("-") not in SORTS:
        raise BadQuery(f"Runs cannot be sorted by {sort!r}; they can by {', '.join(SORTS)}.")
    return sort


def _with_tag(runs: QuerySet[Run], tag: str, name: str) -> QuerySet[Run]:
    if connection.vendor == "postgresql":
        return runs.filter(tags__contains=[tag])  # which has an index of its own there
    text = json.dumps(tag)
    place = StrIndex(Cast("tags", TextField()), Value(text))
    return runs.filter(holds(text)).annotate(**{name: place}).filter(**{f"{name}__gt": 0})
