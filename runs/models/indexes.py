"""Indexes that lists are read from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import models


class ListIndex(models.Index):
    """An index in the order of a list, with what the list may be filtered by beside it.

    A filter that fits few rows passes over many, and a row has several kilobytes: so all that filters look at stands
    in the index. PostgreSQL keeps it beside the keys; SQLite, which cannot, as further keys.
    """

    def __init__(self, *, beside: Sequence[str] = (), **arguments: Any) -> None:
        super().__init__(**arguments)
        self.beside = tuple(beside)

    def create_sql(self, model: Any, schema_editor: Any, using: str = "", **arguments: Any) -> Any:
        if schema_editor.connection.features.supports_covering_indexes:
            columns: dict[str, Any] = {"fields": self.fields, "include": self.beside}
        else:
            columns = {"fields": [*self.fields, *self.beside]}
        wide = models.Index(name=self.name, condition=self.condition, **columns)
        return wide.create_sql(model, schema_editor, using=using, **arguments)

    def deconstruct(self) -> Any:
        path, arguments, keywords = super().deconstruct()
        return path, arguments, {**keywords, "beside": self.beside}
