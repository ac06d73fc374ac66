"""Lists with cursors: a cursor names the last item by value, so that new items neither shift nor repeat a page."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

from django.core.exceptions import ValidationError
from django.db.models import DateTimeField, Model, QuerySet
from django.db.models import Field as ModelField
from ninja import Schema
from pydantic import Field

from runs.models.indexes import beyond

M = TypeVar("M", bound=Model)
T = TypeVar("T")

MAX_LIMIT = 200


class BadCursor(ValueError):
    """A cursor that this list did not make."""


class ListQuery(Schema):
    cursor: str | None = None
    limit: int = Field(100, ge=1, le=MAX_LIMIT)


class Page(Schema, Generic[T]):
    items: list[T]
    next: str | None


def page(
    query: QuerySet[M],
    present: Callable[[Sequence[M]], Sequence[T]],
    *,
    sort: str,
    cursor: str | None,
    limit: int,
) -> Page[T]:
    """Return ``limit`` items after ``cursor``, ordered by the field ``sort`` (``-`` in front: newest or largest first)
    and the primary key. Raises BadCursor."""
    is_descending = sort.startswith("-")
    field = sort.lstrip("-")
    whole = query
    if cursor:
        value, key = _place(query.model, field, cursor)
        query = query.filter(beyond(query.model, field, value, key, is_descending=is_descending))
    sign = "-" if is_descending else ""
    query = query.order_by(f"{sign}{field}", f"{sign}pk")
    # Which rows these are is read from the index alone; then they are fetched, whole and with what belongs to them.
    places = list(query.values_list(field, "pk")[: limit + 1])
    has_more = len(places) > limit
    places = places[:limit]
    keys = [key for _, key in places]
    # Without an order and a cursor PostgreSQL takes the primary key, and no index of the order with all that is in it.
    found = {row.pk: row for row in whole.order_by().filter(pk__in=keys)} if keys else {}
    rows = [found[key] for key in keys if key in found]
    # The framework checks the answer once, by the handler's own response schema.
    return Page.model_construct(items=list(present(rows)), next=cursor_at(*places[-1]) if has_more else None)


def cursor_at(value: Any, key: Any) -> str:
    """The cursor of what comes after the row with that value and primary key."""
    place = [value.isoformat() if isinstance(value, datetime) else value, key]
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def _place(model: type[Model], field: str, cursor: str) -> tuple[Any, Any]:
    try:
        value, key = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if not isinstance(value, str | int) or not isinstance(key, str | int):
            raise ValueError("not a place")
        column = model._meta.get_field(field)
        assert isinstance(column, ModelField) and model._meta.pk is not None
        if isinstance(column, DateTimeField):
            value = datetime.fromisoformat(str(value))
            if value.tzinfo is None:
                raise ValueError("a time without a zone")
        model._meta.pk.to_python(key)
        column.to_python(value)
    except (ValueError, TypeError, RecursionError, ValidationError) as error:
        raise BadCursor(f"{cursor[:80]!r} is no cursor of this list.") from error
    return value, key
