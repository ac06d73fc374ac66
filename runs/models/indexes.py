"""Indexes that lists are read from, and the expressions that read along them."""

import json
from collections.abc import Collection, Sequence
from typing import Any, TypeVar

from django.db import models
from django.db.models import BooleanField, F, Field, Func, Model, Q, QuerySet, TextField, Value
from django.db.models.lookups import In, IsNull

M = TypeVar("M", bound=Model)


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


# Expressions by which a list is read along the index of its order, and by nothing else.


class _Aside(Func):
    """A column whose own indexes SQLite does not consider: it has no statistics, takes any equality for the most
    selective of all, and sorts what it then finds. PostgreSQL knows how much fits, and may choose."""

    arity = 1
    template = "%(expressions)s"

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template="+%(expressions)s", **context)


class _Beyond(Func):
    """``(column, key) < (value, key)``: an index on both is entered in the middle of equal values, too."""

    arity = 4
    output_field = BooleanField()
    conditional = True

    def __init__(self, *expressions: Any, sign: str = "<", **extra: Any) -> None:
        super().__init__(*expressions, sign=sign, **extra)

    def as_sql(self, compiler: Any, connection: Any, *arguments: Any, **context: Any) -> Any:
        texts, values = [], []
        for expression in self.source_expressions:
            text, more = compiler.compile(expression)
            texts.append(text)
            values += more
        return f"({texts[0]}, {texts[1]}) {self.extra['sign']} ({texts[2]}, {texts[3]})", values


def one_of(column: str, values: Collection[str]) -> Q:
    """The column has one of the values: looked at in each row of the list, never looked up."""
    return Q(In(_Aside(F(column), output_field=TextField()), list(values)))


class _Among(Func):
    """The text is one of a list, which may be as long as a table: it travels as one value."""

    arity = 1
    output_field = BooleanField()
    conditional = True

    def __init__(self, *expressions: Any, values: list[str], **extra: Any) -> None:
        super().__init__(*expressions, values=values, **extra)

    def as_sql(self, compiler: Any, connection: Any, *arguments: Any, **context: Any) -> Any:
        text, parameters = compiler.compile(self.source_expressions[0])
        return f"{text} = ANY(%s)", [*parameters, self.extra["values"]]

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        text, parameters = compiler.compile(self.source_expressions[0])
        return f"{text} IN (SELECT value FROM json_each(%s))", [*parameters, json.dumps(self.extra["values"])]


def among(column: str, values: Collection[str]) -> Q:
    """The text of the column is one of the values, of which there may be any number: looked at in each row."""
    return Q(_Among(_Aside(F(column), output_field=TextField()), values=list(values)))


def is_none(column: str) -> Q:
    """The column is NULL: looked at in each row of the list, never looked up."""
    return Q(IsNull(_Aside(F(column), output_field=TextField()), True))


def first_rows(query: QuerySet[M], count: int) -> list[M]:
    """The first rows of the query in its order. Which these are is read from an index alone; then they are fetched,
    whole and with what belongs to them."""
    return first_rows_together(query, [(query, count)])[0]


def first_rows_together(whole: QuerySet[M], parts: Sequence[tuple[QuerySet[M], int]]) -> list[list[M]]:
    """The first rows of several queries, each with its count: ``first_rows`` of each, but what they found is fetched
    from ``whole`` at once."""
    found = [list(query.values_list("pk", flat=True)[:count]) for query, count in parts]
    keys = {key for part in found for key in part}
    rows = {row.pk: row for row in whole.order_by().filter(pk__in=keys)} if keys else {}
    return [[rows[key] for key in part if key in rows] for part in found]


def beyond(model: type[Model], field: str, value: Any, key: Any, *, is_descending: bool) -> Q:
    """Rows that come after the one with that value and primary key, in the order of both."""
    column = model._meta.get_field(field)
    assert isinstance(column, Field)
    return beyond_value(model, field, Value(value, output_field=column), key, is_descending=is_descending)


def beyond_value(model: type[Model], name: str, value: Value, key: Any, *, is_descending: bool) -> Q:
    """The same for an annotation of that name."""
    assert model._meta.pk is not None
    place = (value, Value(key, output_field=model._meta.pk))
    return Q(_Beyond(F(name), F("pk"), *place, sign="<" if is_descending else ">"))
