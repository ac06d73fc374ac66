"""Statements for which the ORM would need more code or more queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.db import connections, models

IDS_PER_QUERY = 500


class RunGone(Exception):
    """Rows that a step was to replace are not there any more: somebody deletes the run."""


def delete_rows(model: type[models.Model], ids: Sequence[Any]) -> int:
    """Delete the rows, but nothing that points to them, and return how many there were."""
    manager = model._default_manager.using(settings.METRICS_DATABASE)
    deleted = 0
    for start in range(0, len(ids), IDS_PER_QUERY):
        deleted += manager.filter(pk__in=ids[start : start + IDS_PER_QUERY])._raw_delete(settings.METRICS_DATABASE)
    return deleted


def execute(sql: str, values: Sequence[Any] = ()) -> int:
    """Run a statement and return how many rows it changed."""
    with connections[settings.METRICS_DATABASE].cursor() as cursor:
        cursor.execute(sql, values)
        return int(cursor.rowcount)


def query(sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    with connections[settings.METRICS_DATABASE].cursor() as cursor:
        cursor.execute(sql, values)
        return list(cursor.fetchall())


def marks(count: int) -> str:
    return ", ".join(["%s"] * count)
