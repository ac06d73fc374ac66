"""A row of the audit outside of the database: what pages, REST, exports and collectors have of it.

``trainyard.contract.answers.people.AuditRow`` names the facts; each way out takes them from here.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from runs.models.security import AuditEntry
from trainyard.contract.answers.people import AuditRow
from trainyard.contract.base import JsonObject

NAMES = tuple(AuditRow.__annotations__)


def as_written(row: AuditEntry) -> AuditRow:
    """Return the row with all that stands in it, its hashes too: whoever has all rows can check the chain."""
    values = {"at": as_time(row.at), "before": row.values_before, "after": row.values_after}
    return {name: values.get(name, getattr(row, name, False)) for name in NAMES}  # type: ignore[return-value]


def as_attributes(row: AuditRow, *, without: tuple[str, ...] = ()) -> dict[str, str | int]:
    """Return the facts as texts and numbers, which is what collectors take."""
    values = {"before": _text(row["before"]), "after": _text(row["after"])}
    left_out = {"is_pseudonymous", *without}
    return {name: value for name, value in {**row, **values}.items() if name not in left_out}  # type: ignore[misc]


def _text(values: JsonObject | None) -> str:
    return canonical(values) if values else ""


def canonical(value: Any) -> str:
    """Return the one JSON text of the value, in ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)


def as_time(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


MAX_CHANGES = 40  # rows of the database whose values one act keeps

Values = JsonObject  # of a row, by field


@dataclass
class Act:
    """One act while it goes on. Code that knows better than the route may set ``action``, ``object`` and so on."""

    actor: str = ""
    actor_number: int | None = None
    token: str = ""
    address: str = ""
    action: str = ""
    object: str = ""
    project: str = ""
    result: str = ""
    before: dict[str, Values] = field(default_factory=dict)  # by row, the fields that changed
    after: dict[str, Values] = field(default_factory=dict)
    num_left_out: int = 0
    repeats: int = 1
    is_wanted: bool = True  # whether it is recorded; code that knows of a sign-in says so

    def changed(self, row: str, before: Values, after: Values) -> None:
        """Keep what an act did to a row; a row that changes again keeps its first values of before."""
        if row not in self.before and row not in self.after and len(self.before) + len(self.after) >= 2 * MAX_CHANGES:
            self.num_left_out += 1
            return
        if before:
            self.before[row] = {**before, **self.before.get(row, {})}
        if after:
            self.after[row] = {**self.after.get(row, {}), **after}


_current: ContextVar[Act | None] = ContextVar("trainyard_act", default=None)


def current_act() -> Act | None:
    return _current.get()


@contextmanager
def acting(act: Act | None) -> Iterator[None]:
    """Let what happens inside count as part of the act; None: of no act, which would keep values of the rows."""
    token = _current.set(act)
    try:
        yield
    finally:
        _current.reset(token)
