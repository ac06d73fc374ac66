"""Which runs a list shows: one place for the table of the site and for REST."""

from __future__ import annotations

import json
from collections.abc import Iterable

from django.db import connection
from django.db.models import Q, QuerySet, TextField, Value
from django.db.models.functions import Cast, StrIndex

from runs.access import Someone, visible_runs
from runs.models import Run
from runs.status import LIVE, Status

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
) -> QuerySet[Run]:
    """Return the visible runs that have one of the statuses, all of the tags, and the words in name, tag or id."""
    runs = visible_runs(user).filter(archived_at__isnull=not is_archived)
    if statuses := list(status):
        runs = runs.filter(status__in=statuses)
    if project:
        runs = runs.filter(Q(project__name=project) | Q(project_id=project))
    for number, tag in enumerate(tags):
        runs = _with_tag(runs, tag, f"tag_{number}")
    if words := words.strip():
        # SQLite keeps tags as json.dumps wrote them, with escapes for what is not ASCII; PostgreSQL without.
        in_tags = Q(tags_text__icontains=words) | Q(tags_text__icontains=json.dumps(words)[1:-1])
        in_name = Q(name__icontains=words) | Q(pk__startswith=words)
        runs = runs.annotate(tags_text=Cast("tags", TextField())).filter(in_name | in_tags)
    return runs


def statuses_of(word: str) -> frozenset[Status]:
    """Return the statuses that a word means: one, or the group ``live`` or ``ended``. Raises BadQuery."""
    if word.lower() in GROUPS:
        return GROUPS[word.lower()]
    if word.upper() in Status.__members__:
        return frozenset({Status(word.upper())})
    raise BadQuery(f"There is no status {word!r}.")


def check_sort(sort: str) -> str:
    """Return ``sort``, a column with or without a minus. Raises BadQuery."""
    if sort.removeprefix("-") not in SORTS:
        raise BadQuery(f"Runs cannot be sorted by {sort!r}; they can by {', '.join(SORTS)}.")
    return sort


def _with_tag(runs: QuerySet[Run], tag: str, name: str) -> QuerySet[Run]:
    if connection.vendor == "postgresql":
        return runs.filter(tags__contains=[tag])
    place = StrIndex(Cast("tags", TextField()), Value(json.dumps(tag)))
    return runs.annotate(**{name: place}).filter(**{f"{name}__gt": 0})
