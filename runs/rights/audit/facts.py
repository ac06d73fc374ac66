"""A row of the audit outside of the database: what pages, REST, exports and collectors have of it.

``trainyard.contract.answers.audit.AuditRow`` names the facts; each way out takes them from here.
"""

import json
from datetime import UTC, datetime
from typing import Any, NamedTuple

from runs.models.security.audit import AuditEntry
from trainyard.contract.answers.audit import AuditRow
from trainyard.contract.base import JsonObject

NAMES = tuple(AuditRow.__annotations__)


class ShownEntry(NamedTuple):
    """A row as it is shown. ``is_pseudonymous``: its hash is of other words."""

    sequence: int
    at: datetime
    actor: str
    token: str
    address: str
    action: str
    object: str
    project: str
    before: JsonObject | None
    after: JsonObject | None
    result: str
    repeats: int
    previous_hash: str
    hash: str
    is_pseudonymous: bool


assert ShownEntry._fields == NAMES


def as_written(row: AuditEntry) -> ShownEntry:
    """Return the row with all that stands in it."""
    own = {name: getattr(row, name) for name in NAMES if name not in ("before", "after", "is_pseudonymous")}
    return ShownEntry(**own, before=row.values_before, after=row.values_after, is_pseudonymous=False)


def as_answer(row: ShownEntry) -> AuditRow:
    """Return the row with its hashes, as exports have it: whoever has all rows can check the chain, but for those that
    name somebody who was erased."""
    found: AuditRow = {**row._asdict(), "at": as_time(row.at)}  # type: ignore[typeddict-item]  # the names are compared
    return found


def as_attributes(row: ShownEntry, *, without: tuple[str, ...] = ()) -> dict[str, str | int]:
    """Return the facts as texts and numbers, which is what collectors take."""
    found = as_answer(row)
    values = {"before": _text(found["before"]), "after": _text(found["after"])}
    left_out = {"is_pseudonymous", *without}
    return {name: value for name, value in {**found, **values}.items() if name not in left_out}  # type: ignore[misc]


def _text(values: JsonObject | None) -> str:
    return canonical(values) if values else ""


def canonical(value: Any) -> str:
    """Return the one JSON text of the value, in ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)


def as_time(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
