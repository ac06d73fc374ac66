"""Lists with cursors: a cursor names the last item by value, so that new items neither shift nor repeat a page."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from django.core.exceptions import ValidationError
from django.db.models import DateTimeField, Model, QuerySet
from django.db.models import Field as ModelField
from ninja import Schema
from pydantic import Field

from runs.api.schemas import schema_of
from runs.models import User
from runs.models.indexes import beyond
from runs.rights.access import named_project
from runs.values.cursors import cursor_of, value_of

M = TypeVar("M", bound=Model)
T = TypeVar("T")

MAX_LIMIT = 200


class BadCursor(ValueError):
    """A cursor that this list did not make."""


class Order(Protocol):
    """An order that is no column's: where each row stands in it is a value, which may be None, and its primary key."""

    def place(self, value: Any, key: str) -> Any:
        """Return the place that a cursor names. Raises ValueError and TypeError for one of another order."""

    def places(self, query: Any, after: Any, count: int) -> list[Any]:
        """Return the places of the first rows after that one."""


class Items(Schema, Generic[T]):
    items: list[T]


class Page(Items[T]):
    next: str | None


class ListQuery(Schema):
    cursor: str | None = None
    limit: int = Field(100, ge=1, le=MAX_LIMIT)

    def page(self, rows: QuerySet[M], present: Callable[[Sequence[M]], Sequence[T]], *, sort: "str | Order") -> Page[T]:
        """Return the page that was asked for, as the function of that name does."""
        return page(rows, present, sort=sort, cursor=self.cursor, limit=self.limit)


class NamedQuery(ListQuery):
    """A list of what projects have by name."""

    project: str | None = None
    name: str | None = None

    def among(self, user: User, rows: QuerySet[M]) -> QuerySet[M]:
        """Return those of the rows that are asked for. Raises NotFound for a project that the person does not see."""
        if self.project:
            rows = rows.filter(project=named_project(user, self.project))
        return rows.filter(name=self.name) if self.name else rows


def page_of(document: Any, name: str = "") -> Any:
    """Return the schema of a page of these documents, whose own schema may have a name of its own."""
    return Page[schema_of(document, name)]  # type: ignore[misc]  # a type that is made


def page(
    query: QuerySet[M],
    present: Callable[[Sequence[M]], Sequence[T]],
    *,
    sort: str | Order,
    cursor: str | None,
    limit: int,
) -> Page[T]:
    """Return ``limit`` items after ``cursor``, ordered by the field ``sort`` (``-`` in front: newest or largest first)
    and the primary key, or in an order of its own. Raises BadCursor."""
    # Which rows these are is read from the index alone; then they are fetched, whole and with what belongs to them.
    found_places = places(query, sort, cursor, limit + 1)
    has_more = len(found_places) > limit
    found_places = found_places[:limit]
    keys = [key for _, key in found_places]
    # Without an order and a cursor PostgreSQL takes the primary key, and no index of the order with all that is in it.
    found = {row.pk: row for row in query.order_by().filter(pk__in=keys)} if keys else {}
    rows = [found[key] for key in keys if key in found]
    # The framework checks the answer once, by the handler's own response schema.
    return Page.model_construct(items=list(present(rows)), next=cursor_at(*found_places[-1]) if has_more else None)


def places(query: QuerySet[M], sort: str | Order, cursor: str | None, count: int) -> list[tuple[Any, Any]]:
    """Return what ``sort`` goes by, and the primary key, of the first ``count`` rows after ``cursor``."""
    if not isinstance(sort, str):
        return sort.places(query, _place_in(sort, cursor), count)
    is_descending = sort.startswith("-")
    field = sort.lstrip("-")
    if cursor:
        value, key = _place(query.model, field, cursor)
        query = query.filter(beyond(query.model, field, value, key, is_descending=is_descending))
    sign = "-" if is_descending else ""
    return list(query.order_by(f"{sign}{field}", f"{sign}pk").values_list(field, "pk")[:count])


def _place_in(order: Order, cursor: str | None) -> Any:
    if not cursor:
        return None
    try:
        value, key = value_of(cursor)
        if not isinstance(key, str):
            raise ValueError("not a place")
        return order.place(value, key)
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise _bad(cursor) from error


def cursor_at(value: Any, key: Any) -> str:
    """The cursor of what comes after the row with that value and primary key."""
    place = [value.isoformat() if isinstance(value, datetime) else value, key]
    return cursor_of(place)


def _place(model: type[Model], field: str, cursor: str) -> tuple[Any, Any]:
    try:
        value, key = value_of(cursor)
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
        raise _bad(cursor) from error
    return value, key


def _bad(cursor: str) -> BadCursor:
    return BadCursor(f"{cursor[:80]!r} is no cursor of this list.")
