"""Rows of the audit for whoever may read them: found by filters, and as one line of CSV or JSON."""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from django.db.models import Q, QuerySet

from runs.models import AuditEntry, User
from runs.models.indexes import one_of
from runs.rights import access
from runs.rights.audit.chain import READ_AT_ONCE
from runs.rights.audit.facts import NAMES, canonical
from runs.rights.audit.pseudonyms import is_pseudonym, shown, without_erased
from trainyard.contract.answers.people import AuditRow

SEARCHED = ("actor", "action", "object", "token", "address", "before", "after")
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # what a spreadsheet takes for the beginning of one
RESULT_WORDS = {
    "ok": "done", "refused: 400": "refused: not understood", "refused: 401": "refused: not signed in",
    "refused: 403": "refused: not permitted", "refused: 404": "refused: not there",
    "refused: 409": "refused: not in this state", "refused: 413": "refused: too large",
    "refused: 422": "refused: a value does not fit", "refused: 429": "refused: too often",
}  # fmt: skip


class AuditFilters(NamedTuple):
    actor: str = ""
    action: str = ""  # or its beginning, to a dot: runs
    object: str = ""
    project: str = ""
    address: str = ""
    result: str = ""  # ok, refused or failed
    q: str = ""
    since: datetime | None = None
    until: datetime | None = None


def is_auditor(user: access.Someone) -> bool:
    """Return whether they read everything, with what happened outside of projects."""
    return _is_staff_auditor(user) or access.can_everywhere(user, access.Permission.AUDIT_READ)


def _is_staff_auditor(user: access.Someone) -> bool:
    if not isinstance(user, User) or (user.token is not None and user.token.project_ids is not None):
        return False
    return user.is_active and user.is_staff and access.has_scope(user, access.Permission.AUDIT_READ)


def can_read_audit(user: access.Someone) -> bool:
    """Return whether they read any of it. Every page asks, for its menu."""
    return _is_staff_auditor(user) or access.can_somewhere(user, access.Permission.AUDIT_READ)


def visible_entries(user: access.Someone) -> QuerySet[AuditEntry]:
    """Return all entries for auditors; for others those of projects whose audit they read. Raises Forbidden."""
    access.require_scope(user, access.Permission.AUDIT_READ)
    if is_auditor(user):
        return AuditEntry.objects.all()
    names = list(access.projects_with(user, access.Permission.AUDIT_READ).values_list("name", flat=True))
    if not names:
        raise access.Forbidden("The audit is for auditors, and for owners of projects.")
    return AuditEntry.objects.filter(one_of("project", names))


def filtered(rows: QuerySet[AuditEntry], filters: AuditFilters) -> QuerySet[AuditEntry]:
    if filters.actor or filters.q or filters.address:
        rows = without_erased(rows, filters.actor)
    if filters.action:
        rows = rows.filter(Q(action=filters.action) | Q(action__startswith=f"{filters.action}."))
    if filters.q:
        rows = rows.filter(Q(*((f"{name}__icontains", filters.q) for name in SEARCHED), _connector=Q.OR))
    wanted = {
        "actor": "" if is_pseudonym(filters.actor) else filters.actor, "project": filters.project,
        "address": filters.address, "object__contains": filters.object, "result__startswith": filters.result,
        "at__gte": filters.since, "at__lt": filters.until,
    }  # fmt: skip
    return rows.filter(**{name: value for name, value in wanted.items() if value})


def json_lines(rows: QuerySet[AuditEntry]) -> Iterator[str]:
    for row in _oldest_first(rows):
        yield f"{json.dumps(row, separators=(',', ':'))}\n"


def csv_lines(rows: QuerySet[AuditEntry]) -> Iterator[str]:
    yield _csv_line(NAMES)
    for row in _oldest_first(rows):
        yield _csv_line(map(_cell, row.values()))


def _oldest_first(rows: QuerySet[AuditEntry]) -> Iterator[AuditRow]:
    """Yield all of them, some at a time: no transaction stays open while somebody reads slowly."""
    last = 0
    while found := list(rows.filter(sequence__gt=last).order_by("sequence")[:READ_AT_ONCE]):
        yield from shown(found)
        last = found[-1].sequence


def _csv_line(cells: Iterable[object]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(list(cells))
    return line.getvalue()


def _cell(value: object) -> object:
    """Return what a spreadsheet takes for text and never for a formula."""
    if isinstance(value, dict):
        return canonical(value)
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def result_words(result: str) -> str:
    """Return what came of it in words, for what a row has as a status of HTTP."""
    return RESULT_WORDS.get(result, result)
