"""Moments, and rows, as programs read them."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, overload

from django.db.models import Model

from runs.models import User


@overload
def stamp(at: datetime | float) -> str: ...
@overload
def stamp(at: datetime | float | None) -> str | None: ...
def stamp(at: datetime | float | None) -> str | None:
    """Return the time, which may be in Unix seconds, as ISO 8601 in UTC."""
    at = datetime.fromtimestamp(at, UTC) if isinstance(at, int | float) else at
    return at.isoformat().replace("+00:00", "Z") if at else None


def shown(value: Any) -> Any:
    """Return a time as its stamp, a person by their user name, another row by its name; text as it is."""
    if isinstance(value, datetime):
        return stamp(value)
    return getattr(value, "username" if isinstance(value, User) else "name") if isinstance(value, Model) else value


def document_of(row: Model, names: Iterable[str], **others: Any) -> Any:
    """Return these attributes of the row as answers show them, and ``others``, which it has in another way."""
    return {name: shown(getattr(row, name)) for name in names if name not in others} | others
