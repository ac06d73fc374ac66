"""Many rows at once: what the ORM does for comfort costs more than the database itself where rows come by the
thousand.

On SQLite statements are prepared once and run for each row; PostgreSQL takes new rows by COPY, in binary, and changes
in one pipeline. Called inside a transaction; errors are Django's.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, TypeVar

from django.conf import settings
from django.db import connections, models, router

IDS_PER_QUERY = 500  # SQLite bounds the variables of a statement
Model = type[models.Model]
Row = Sequence[Any]  # values as the driver takes them: JSON as text, times by time_value()
T = TypeVar("T")


def insert(model: Model, names: tuple[str, ...], rows: Sequence[Row]) -> None:
    """Insert rows of these fields; the keys that the database assigns are not returned."""
    if not rows:
        return
    connection = connections[settings.METRICS_DATABASE]
    with connection.cursor() as cursor:
        if connection.vendor != "postgresql":
            cursor.executemany(_insertion(model, names), rows)
            return
        table, columns, kinds = _shape(model, names)
        with (
            connection.wrap_database_errors,
            cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)") as copy,
        ):
            copy.set_types(kinds)
            for row in rows:
                copy.write_row(row)


def update(model: Model, names: tuple[str, ...], rows: Sequence[Row]) -> None:
    """Set these fields of existing rows: each row is their values and, last, its primary key."""
    if not rows:
        return
    with connections[router.db_for_write(model)].cursor() as cursor:
        if len(rows) == 1:
            cursor.execute(_change(model, names), rows[0])
        else:
            cursor.executemany(_change(model, names), rows)


def time_value(at: Any) -> Any:
    """Return a moment as the driver takes it."""
    return connections[settings.METRICS_DATABASE].ops.adapt_datetimefield_value(at)


@cache
def _insertion(model: Model, names: tuple[str, ...]) -> str:
    table, columns, _ = _shape(model, names)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join(['%s'] * len(columns))})"


@cache
def _change(model: Model, names: tuple[str, ...]) -> str:
    table, columns, _ = _shape(model, names)
    _, [key], _ = _shape(model, ("pk",))
    return f"UPDATE {table} SET {', '.join(f'{column} = %s' for column in columns)} WHERE {key} = %s"


@cache
def _shape(model: Model, names: tuple[str, ...]) -> tuple[str, list[str], list[str]]:
    """Return the table, the columns and their types, quoted for SQL."""
    connection = connections[settings.METRICS_DATABASE]
    quote = connection.ops.quote_name
    columns, kinds = [], []
    for name in names:
        field: Any = model._meta.pk if name == "pk" else model._meta.get_field(name)
        columns.append(quote(field.column))
        kinds.append(str(field.db_type(connection)).partition("(")[0])
    return quote(model._meta.db_table), columns, kinds


# Statements for which the ORM would need more code or more queries.


class RunGone(Exception):
    """Rows that a step was to replace are not there any more: somebody deletes the run."""


def delete_rows(model: type[models.Model], ids: Sequence[Any]) -> int:
    """Delete the rows, but nothing that points to them, and return how many there were."""
    manager = model._default_manager.using(settings.METRICS_DATABASE)
    return sum(manager.filter(pk__in=some)._raw_delete(settings.METRICS_DATABASE) for some in in_parts(ids))


def in_parts(ids: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield them as many at a time as one query asks for."""
    for start in range(0, len(ids), IDS_PER_QUERY):
        yield ids[start : start + IDS_PER_QUERY]


def execute(sql: str, values: Sequence[Any] = ()) -> int:
    with connections[settings.METRICS_DATABASE].cursor() as cursor:
        cursor.execute(sql, values)
        return int(cursor.rowcount)


def query(sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    with connections[settings.METRICS_DATABASE].cursor() as cursor:
        cursor.execute(sql, values)
        return list(cursor.fetchall())


def storable(text: str) -> str:
    """PostgreSQL keeps no NUL in text; the replacement character shows that something was there."""
    return text.replace("\x00", "\ufffd")


def marks(count: int) -> str:
    return ", ".join(["%s"] * count)
