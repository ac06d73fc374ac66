"""Reading several rows as of one moment, while ingest commits and compaction replaces what was read a moment ago."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import connections

# Django's own atomic() would take SQLite's write lock (transaction_mode IMMEDIATE) and see each statement's own moment
# on PostgreSQL.
BEGIN = {
    "sqlite": "BEGIN DEFERRED",
    "postgresql": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
}


@contextmanager
def snapshot() -> Iterator[None]:
    """Everything that is read inside is of one moment. Inside a transaction it is that transaction's."""
    connection = connections[settings.METRICS_DATABASE]
    if connection.in_atomic_block or getattr(connection, "is_snapshot", False):
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute(BEGIN[connection.vendor])
        connection.is_snapshot = True  # type: ignore[attr-defined]
        try:
            yield
        finally:
            connection.is_snapshot = False  # type: ignore[attr-defined]
            cursor.execute("COMMIT")
