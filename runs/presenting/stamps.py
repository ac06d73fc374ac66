"""Moments as programs read them."""

from datetime import UTC, datetime
from typing import overload


@overload
def stamp(at: datetime | float) -> str: ...
@overload
def stamp(at: datetime | float | None) -> str | None: ...
def stamp(at: datetime | float | None) -> str | None:
    """Return the time, which may be in Unix seconds, as ISO 8601 in UTC."""
    at = datetime.fromtimestamp(at, UTC) if isinstance(at, int | float) else at
    return at.isoformat().replace("+00:00", "Z") if at else None
