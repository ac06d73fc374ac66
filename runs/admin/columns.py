"""Columns whose values have a unit: written as on the pages, and ordered by what lies in the database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin

from trainyard.formats.figures import Value, seconds, size

Read = Callable[[Any], str]


def size_of(field: str) -> Read:
    """A column of bytes, as KiB, MiB, GiB."""
    return _column(field, "size", size)


def time_of(field: str, heading: str) -> Read:
    """A column of seconds, as ms, s, min."""
    return _column(field, heading, seconds)


def _column(field: str, heading: str, write: Callable[[Value], str]) -> Read:
    @admin.display(description=heading, ordering=field)
    def read(row: Any) -> str:
        return write(getattr(row, field))

    return read
