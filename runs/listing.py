"""Which runs a list shows: one place for the table, REST and the terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence

from django.db.models import Q, QuerySet

from runs.access import Someone, visible_runs
from runs.models import Run
from runs.status import LIVE, Status

# What a list can be sorted by -> its column; none is ever empty, so that a cursor can stand between any two rows.
SORTS = {"created": "created_at", "changed": "changed_at", "name": "name", "status": "status"}
GROUPS: dict[str, frozenset[Status]] = {"live": LIVE, "ended": frozenset(Status) - LIVE}


class BadQuery(ValueError):
    """A filter or an order that no list understands."""


def find_runs(
    user: Someone,
    *,
    status: Sequence[str] = (),
    project: str = "",
    tag: str = "",
    words: str = "",
    is_archived: bool = False,
) -> QuerySet[Run]:
    """Return the visible runs that fit. ``status`` holds statuses in any case, or ``live`` and ``ended``.

    Raises BadQuery.
    """
    runs = visible_runs(user).filter(archived_at__isnull=not is_archived)
    if status:
        runs = runs.filter(status__in=_statuses(status))
    if project:
        runs = runs.filter(Q(project__name=project) | Q(project_id=project))
    if words := words.strip():
        runs = runs.filter(Q(name__icontains=words) | Q(pk__startswith=words) | Q(tags__icontains=words))
    if tag:
        # As JSON text, because SQLite has no `contains` for JSON; json.dumps quotes as the database does.
        runs = runs.filter(tags__icontains=json.dumps(tag))
    return runs


def column_of(sort: str) -> str:
    """``-created`` -> ``-created_at``. Raises BadQuery."""
    column = SORTS.get(sort.removeprefix("-"))
    if column is None:
        raise BadQuery(f"runs cannot be sorted by {sort!r}; they can by {', '.join(SORTS)}")
    return f"-{column}" if sort.startswith("-") else column


def _statuses(wanted: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for word in wanted:
        if word.lower() in GROUPS:
            found |= {str(status) for status in GROUPS[word.lower()]}
        elif word.upper() in Status.__members__:
            found.add(word.upper())
        else:
            raise BadQuery(f"there is no status {word!r}")
    return found
