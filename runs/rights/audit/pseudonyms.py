"""Rows of the audit as people see them who may: of somebody who was erased a pseudonym stands in place of the name.

The rows themselves stay as they were written, so that their chain of hashes can be checked. Which names the erased had
stands in those rows alone; it is read out of them, kept in memory, and replaced wherever a row is shown or exported.
"""

import json
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from django.db.models import Q, QuerySet

from runs.models import AuditEntry, ErasedPerson
from runs.models.privacy import pseudonym_of
from runs.rights.audit.facts import as_written
from trainyard.contract.answers.people import AuditRow
from trainyard.contract.base import JsonObject

HIDDEN = "…"
OBJECT = re.compile(r"(\buser(?:name)? )([^,]+)")  # as runs.rights.audit.recording names people
NAMING = ("username", "email", "first_name", "last_name")  # fields of a person's row in "before" and "after"


class Erased(NamedTuple):
    """People whom rows must not name: their numbers, and by name the pseudonym and until when the name was theirs:
    whoever comes later may be called alike."""

    numbers: frozenset[int]
    names: dict[str, tuple[str, datetime]]

    def name(self, name: str, at: datetime) -> str:
        pseudonym, until = self.names.get(name, ("", at))
        return pseudonym if pseudonym and at <= until else name

    def in_object(self, text: str, at: datetime) -> str:
        """A person may be called as any word: their name is taken for one only where people are named."""
        if not self.names or "user" not in text:
            return text
        return OBJECT.sub(lambda found: found[1] + self.name(found[2], at), text)


def shown(rows: Iterable[AuditEntry]) -> Iterator[AuditRow]:
    erased = erased_people()
    for row in rows:
        yield _shown(row, erased)


def without_erased(rows: QuerySet[AuditEntry], actor: str = "") -> QuerySet[AuditEntry]:
    """Return the rows that a search by words may find: those of the erased are found by their pseudonym alone."""
    numbers = erased_people().numbers
    if not numbers:
        return rows
    if is_pseudonym(actor):
        return rows.filter(actor_number=int(actor.rpartition(" ")[2]))
    return rows.exclude(actor_number__in=numbers)


def is_pseudonym(actor: str) -> bool:
    """Return whether this is what an erased person is called."""
    number = actor.rpartition(" ")[2]
    is_number = number.isascii() and number.isdigit() and len(number) < 19
    return is_number and actor == pseudonym_of(int(number)) and int(number) in erased_people().numbers


def erased_people() -> Erased:
    return _erased(tuple(ErasedPerson.objects.order_by("number").values_list("number", "at")))


@lru_cache(maxsize=4)
def _erased(people: tuple[tuple[int, datetime], ...]) -> Erased:
    """Read once for each set of people: nothing that names them is written after they are erased."""
    names: dict[str, tuple[str, datetime]] = {}
    for number, at in people:
        for name in _names_of(number):
            names.setdefault(name, (pseudonym_of(number), at))
    return Erased(frozenset(number for number, _ in people), names)


def _names_of(number: int) -> set[str]:
    own = f"user {number}"
    names = set(AuditEntry.objects.filter(actor_number=number).order_by().values_list("actor", flat=True).distinct())
    rows = AuditEntry.objects.filter(Q(before__contains=f'"{own}"') | Q(after__contains=f'"{own}"'))
    for texts in rows.order_by().values_list("before", "after"):
        for text in filter(None, texts):
            fields = json.loads(text).get(own, {})
            names |= {str(fields[name]) for name in NAMING if fields.get(name)}
    return {name for name in names if name and name != pseudonym_of(number)}


def _shown(row: AuditEntry, erased: Erased) -> AuditRow:
    is_theirs = row.actor_number in erased.numbers
    actor = pseudonym_of(row.actor_number) if is_theirs and row.actor_number else row.actor
    if row.actor_number is None:
        actor = erased.name(row.actor, row.at)
    whole = as_written(row)
    hidden: AuditRow = {
        **whole,
        "actor": actor,
        "token": HIDDEN if is_theirs and row.token else row.token,
        "address": HIDDEN if is_theirs and row.address else row.address,
        "object": erased.in_object(row.object, row.at),
        "before": _values(whole["before"], row.at, erased),
        "after": _values(whole["after"], row.at, erased),
    }
    return {**hidden, "is_pseudonymous": is_theirs or hidden != whole}


def _values(values: JsonObject | None, at: datetime, erased: Erased) -> JsonObject | None:
    """Hide what rows of the erased held, and their names in the rest."""
    if not values or not erased.numbers:
        return values
    return {row: _fields(row, fields, at, erased) for row, fields in values.items()}


def _fields(row: str, fields: Any, at: datetime, erased: Erased) -> Any:
    if not isinstance(fields, dict):
        return fields
    kind, _, key = row.partition(" ")
    owner = int(key) if kind == "user" and key.isdigit() else fields.get("user_id", fields.get("person_id"))
    if owner in erased.numbers:
        return dict.fromkeys(fields, HIDDEN)
    return {
        name: erased.name(value, at) if name in NAMING and isinstance(value, str) else value
        for name, value in fields.items()
    }
