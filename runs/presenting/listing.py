"""Runs that a list or a comparison shows: one place for the pages of the site and for REST."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from django.db.models import BooleanField, Case, Count, Exists, F, OuterRef, Q, QuerySet, Subquery, When, Window
from django.db.models.functions import Coalesce, RowNumber
from django.http import QueryDict
from django.utils import timezone

from runs.finding.fields import statuses_of
from runs.finding.language import MAX_LENGTH, FilterError
from runs.finding.queries import condition, has_tag, has_words
from runs.models import Attempt, Job, Node, Placement, Project, Run
from runs.models.indexes import one_of
from runs.models.sweeps import Trial, TrialRun
from runs.rights.access import Someone, visible_runs
from runs.values.status import Status

# The run that stands for its sweep in a list without trials: that of the best trial, before there is one of the first.
IS_BEST = Q(Exists(
    Trial.objects.filter(Q(sweep__best=F("pk")) | Q(sweep__best=None, number=0), run=OuterRef("pk"))
))  # fmt: skip


class BadQuery(ValueError):
    """A status that there is not."""


def find_runs(
    user: Someone,
    *,
    status: Iterable[Status] = (),
    project: str = "",
    tags: Iterable[str] = (),
    words: str = "",
    fitting: str = "",
    is_archived: bool | None = False,
    has_trials: bool = True,
    has_best: bool = False,
) -> QuerySet[Run]:
    """Return the visible runs that have one of the statuses, all of the tags, the words in name, tag or id, and fit the
    filter ``fitting``; where not ``has_trials``, of the trials of sweeps only one whose whole id the words or the
    filter are, and where it ``has_best``, one that stands for each sweep. Raises FilterError.

    They are to be read in the order of an index (``ListIndex``) until a page is full: the filters are such that no
    database takes another index and sorts what it finds, which may be all runs.
    """
    runs = visible_runs(user)
    if is_archived is not None:
        runs = runs.filter(archived_at__isnull=not is_archived)
    if statuses := list(status):
        runs = runs.filter(one_of("status", statuses))
    if project:
        named = Project.objects.filter(Q(name=project) | Q(pk=project))
        runs = runs.filter(one_of("project_id", list(named.values_list("pk", flat=True))))
    for tag in tags:
        runs = runs.filter(has_tag(tag))
    if (words := words.strip()) and has_trials:
        runs = runs.filter(has_words(words))
    if fitting:
        runs = runs.filter(condition(fitting, timezone.now()))
    first = has_words(words) if words and not has_trials else None
    return runs if has_trials else without_trials(runs, words or fitting.strip(), has_best=has_best, first=first)


def without_trials(runs: QuerySet[Run], words: str, *, has_best: bool, first: Q | None = None) -> QuerySet[Run]:
    """Leave trials out as ``find_runs`` does. Whether a run is one costs most: it is asked where it fits ``first``."""
    same = {"run": OuterRef("pk")}
    is_trial = Q(Exists(Trial.objects.filter(**same))) | Q(Exists(TrialRun.objects.filter(**same)))
    shown = ~is_trial | IS_BEST if has_best else ~is_trial
    shown = shown | Q(pk=words) if words else shown
    fits = Case(When(first, then=shown), default=False, output_field=BooleanField()) if first else shown
    return runs.filter(fits)


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
    found = rows.values_list("job__project_id", "job__name", *LastRun._fields)
    return {keys[project, name]: LastRun(*run) for project, name, *run in found if (project, name) in keys}


def statuses_named(word: str) -> frozenset[Status]:
    """Return the statuses that a word means: one, or the group ``live`` or ``ended``. Raises BadQuery."""
    if found := statuses_of(word):
        return found
    raise BadQuery(f"There is no status {word!r}.")


UNSEEN = ("go", "trace", "stop", "growth", "pace", "cause", "failure", "alarms")  # of an attempt, what no list shows


class Newest(NamedTuple):
    """``placements`` have their node and their attempt at hand."""

    attempt: Attempt | None = None
    placements: Sequence[Placement] = ()


def newest_of(run: Run) -> Newest:
    return newest_of_all([run])[run.pk]


def ranks_of_all(run_ids: Sequence[str]) -> dict[str, list[int]]:
    """Return how many ranks each node has in the newest attempt of each run, by the run's id: where nothing else of
    the attempt is shown."""
    attempts = Attempt.objects.filter(run__in=list(run_ids)).order_by("number").values_list("run_id", "pk")
    run_of = {attempt: run_id for run_id, attempt in dict(attempts).items()}
    found: dict[str, list[int]] = {run_id: [] for run_id in run_ids}
    placements = Placement.objects.filter(attempt__in=list(run_of)) if run_of else Placement.objects.none()
    for attempt, num_ranks in placements.values_list("attempt_id", "num_ranks"):
        found[run_of[attempt]].append(num_ranks)
    return found


def newest_of_all(runs: Sequence[Run]) -> dict[str, Newest]:
    by_run = {run.pk: run for run in runs}
    newest = {one.run_id: one for one in Attempt.objects.defer(*UNSEEN).filter(run__in=list(by_run)).order_by("number")}
    attempts = {attempt.pk: attempt for attempt in newest.values()}
    placements = list(Placement.objects.defer("gained").filter(attempt__in=list(attempts))) if attempts else []
    nodes = Node.objects.only("name").in_bulk({one.node_id for one in placements})
    parts: dict[str, list[Placement]] = {attempt_id: [] for attempt_id in attempts}
    for one in placements:
        one.attempt, one.node = attempts[one.attempt_id], nodes[one.node_id]
        parts[one.attempt_id].append(one)
    for attempt in attempts.values():
        attempt.run = by_run[attempt.run_id]
    found = {run_id: Newest(attempt, parts[attempt.pk]) for run_id, attempt in newest.items()}
    return {run_id: found.get(run_id, Newest()) for run_id in by_run}


# Runs that the address of a comparison asks for.

MAX_COMPARED = 1_000
MAX_CHARS = 500  # of a parameter
OF_SWEEP = "sweep:"  # how the tag begins that all runs of a sweep have


class Asked(NamedTuple):
    """Runs that the address asks for: named ones, and those of a filter, a project or a tag without some."""

    named: list[str]
    fitting: str
    project: str
    tag: str
    has_trials: bool
    without: list[str]

    @property
    def is_filter(self) -> bool:
        return bool(self.fitting or self.project or self.tag)


def text_of(query: QueryDict, name: str) -> str:
    return query.get(name, "").strip()[:MAX_CHARS]


def asked_of(query: QueryDict) -> Asked:
    named, without = (
        list(dict.fromkeys(one[:MAX_CHARS] for one in query.getlist(name) if one)) for name in ("run", "without")
    )
    tag = text_of(query, "tag")
    fitting = query.get("filter", "")[: MAX_LENGTH + 1]
    has_trials = text_of(query, "trials") == "1" or tag.startswith(OF_SWEEP)
    return Asked(named, fitting, text_of(query, "project"), tag, has_trials, without)


def compared_runs(user: Someone, asked: Asked) -> tuple[list[Run], str]:
    """Return those of the named runs that the person may see, as they were named, and behind them those that fit, the
    newest first; and the sentence about runs that are not shown: how many, and never which."""
    sentences = []
    ids = asked.named[:MAX_COMPARED]
    visible = visible_runs(user).in_bulk(ids)
    runs = [visible[run_id] for run_id in ids if run_id in visible]
    if len(asked.named) > MAX_COMPARED:
        sentences.append(f"This address names {len(asked.named)} runs; the first {MAX_COMPARED} are compared.")
    if num_missing := len(ids) - len(runs):
        words = "One run of this address is" if num_missing == 1 else f"{num_missing} runs of this address are"
        sentences.append(f"{words} not shown: deleted, or not yours to see.")
    if asked.is_filter:
        try:
            found = find_runs(
                user,
                project=asked.project,
                tags=[asked.tag] if asked.tag else (),
                fitting=asked.fitting,
                has_trials=asked.has_trials,
            ).exclude(pk__in={*asked.named, *asked.without})
            fitting = list(found.order_by("-created_at", "-pk")[: MAX_COMPARED + 1 - len(runs)])
        except FilterError as error:
            fitting = []
            place = f" It is at character {error.position + 1}." if asked.fitting else ""
            sentences.append(f"This filter cannot be read. {error.message}{place}")
        if len(runs) + len(fitting) > MAX_COMPARED:
            sentences.append(f"More than {MAX_COMPARED:,} runs fit; the newest {MAX_COMPARED:,} are compared.")
        elif not fitting and not sentences:
            sentences.append("No run that you may see fits this filter.")
        runs = [*runs, *fitting][:MAX_COMPARED]
    return runs, " ".join(sentences)
