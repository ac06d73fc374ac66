"""Moments as programs read them."""

from datetime import datetime
from typing import overload


@overload
def stamp(at: datetime) -> str: ...
@overload
def stamp(at: datetime | None) -> str | None: ...
def stamp(at: datetime | None) -> str | None:
    """Return the time as ISO 8601 in UTC."""
    return at.isoformat().replace("+00:00", "Z") if at else None
