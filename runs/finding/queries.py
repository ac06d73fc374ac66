"""Filters as conditions on rows of runs, and the orders that lists may have.

A condition is true or false, never NULL: `not` turns what has no value into a hit, so that `a != b` is `not a = b`.
Nothing here asks who may see what: whoever uses a condition or an order does so within the runs that a person sees.
"""

import json
import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from django.db import connection
from django.db.models import BooleanField, F, Func, Q, QuerySet, TextField, Value
from django.db.models import DateTimeField as Moment
from django.db.models.functions import Cast, Lower, StrIndex
from django.db.models.lookups import Exact, GreaterThan, GreaterThanOrEqual, IsNull, LessThan, LessThanOrEqual
from numpy.typing import NDArray

from runs.finding.columns import table
from runs.finding.fields import FIXED, Field, is_none, number_of, read_field, span_of, status_of
from runs.finding.index import Column, Floats, Numbers, index, numbered, packed
from runs.finding.language import All, Either, Expression, FieldComparison, FilterError, FilterText, Not, Word, parse
from runs.models import Project, Run
from runs.models.indexes import beyond_value, one_of
from runs.models.runs import SEARCHED

MAX_COLUMNS = 16  # each has a value for every run
LOOKUPS = {"<": LessThan, "<=": LessThanOrEqual, ">": GreaterThan, ">=": GreaterThanOrEqual, "=": Exact}
ORDERS = ("<", "<=", ">", ">=")
COMPARE: dict[str, Callable[[Floats, float], NDArray[np.bool_]]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq,
}  # fmt: skip


class _Asked:
    """Data that the parts of one filter share: the time, and the columns that it asks for."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self._columns: dict[Field, Column] = {}

    def column(self, field: Field, position: int) -> Column:
        if field not in self._columns:
            if len(self._columns) == MAX_COLUMNS:
                words = f"A filter asks for at most {MAX_COLUMNS} fields of specs, configurations and summaries."
                raise FilterError(words, position)
            self._columns[field] = index.column(field, is_checked=bool(self._columns))
        return self._columns[field]


Part = Q | NDArray[np.bool_]  # what columns answer is a mask, by the runs' numbers, until a query needs it
Join = Callable[[Any, Any], Any]


def condition(text: str, now: datetime) -> Q:
    """Return the condition that a run fits the filter; relative times are before ``now``. Raises FilterError."""
    found = parse(text)
    part = Q() if found is None else _of(found, _Asked(now))
    return part if isinstance(part, Q) else numbered(part)


def _of(part: Expression, asked: _Asked) -> Part:
    match part:
        case Word(word):
            return has_words(word.text)
        case Not(inner):
            return ~_of(inner, asked)
        case All(parts):
            return _joined(operator.and_, [_of(one, asked) for one in parts])
        case Either(parts):
            return _joined(operator.or_, [_of(one, asked) for one in parts])
        case FieldComparison():
            return _comparison(part, asked)


def _joined(join: Join, parts: Sequence[Part]) -> Part:
    masks = [part for part in parts if not isinstance(part, Q)]
    conditions = [part for part in parts if isinstance(part, Q)]
    if masks:
        size = min(mask.size for mask in masks)  # a column that was asked for later may know of a newer run
        mask = reduce(join, [mask[:size] for mask in masks])
        if not conditions:
            return mask
        conditions.append(numbered(mask))
    return reduce(join, conditions)


def _comparison(part: FieldComparison, asked: _Asked) -> Part:
    field = read_field(part.field)
    build = BUILDERS[field.kind]
    if part.operator == "!=":
        return ~build(field, "=", part.values[0], asked)
    if part.operator == "in":
        return _joined(operator.or_, [build(field, "=", value, asked) for value in part.values])
    return build(field, part.operator, part.values[0], asked)


Build = Callable[[Field, str, FilterText, _Asked], Part]


# One function for each kind of field: of =, ~, and the four orders, with one value.


def _status(field: Field, sign: str, value: FilterText, asked: _Asked) -> Q:
    _refuse_order(field, sign, value, takes_part=False)
    return one_of("status", status_of(value))


def _name(field: Field, sign: str, value: FilterText, asked: _Asked) -> Q:
    _refuse_order(field, sign, value)
    # The first of both stands in the indexes of lists.
    return holds(value.text) & (one_of("name", [value.text]) if sign == "=" else _contains(F("name"), value.text))


def _project(field: Field, sign: str, value: FilterText, asked: _Asked) -> Q:
    _refuse_order(field, sign, value)
    named = Q(name=value.text) | Q(pk=value.text) if sign == "=" else _contains(F("name"), value.text)
    return one_of("project_id", list(Project.objects.filter(named).values_list("pk", flat=True)))


def _user(field: Field, sign: str, value: FilterText, asked: _Asked) -> Q:
    _refuse_order(field, sign, value)
    if sign == "=" and is_none(value):
        return Q(IsNull(F("created_by"), True))
    who = F("created_by__username")
    return surely(Exact(who, Value(value.text))) if sign == "=" else _contains(who, value.text)


def _tag(field: Field, sign: str, value: FilterText, asked: _Asked) -> Q:
    _refuse_order(field, sign, value)
    return has_tag(value.text) if sign == "=" else _contains(Cast("tags", TextField()), value.text)


def _time(column: str) -> Build:
    def build(field: Field, sign: str, value: FilterText, asked: _Asked) -> Q:
        if sign == "~":
            raise FilterError(f"{field.name} is a time: it takes = != < <= > >= and in.", value.position)
        if sign == "=" and is_none(value):
            return Q(IsNull(F(column), True))
        start, end = (Value(moment, output_field=Moment()) for moment in span_of(value, asked.now))
        is_day = start.value != end.value
        if sign == "=":
            last = LessThan(F(column), end) if is_day else LessThanOrEqual(F(column), end)
            return surely(GreaterThanOrEqual(F(column), start)) & surely(last)
        if is_day and sign in ("<=", ">"):  # of a day: up to its end, or from its end on
            return surely(LessThan(F(column), end) if sign == "<=" else GreaterThanOrEqual(F(column), end))
        return surely(LOOKUPS[sign](F(column), start))

    return build


def _document(field: Field, sign: str, value: FilterText, asked: _Asked) -> NDArray[np.bool_]:
    number = number_of(value)
    if sign in ORDERS and number is None:
        raise FilterError(f"{sign} compares numbers and times, and {value.text} is a text.", value.position)
    column = asked.column(field, value.position)
    if sign == "~":
        part = value.text.lower()
        return _with_texts(column, (part in text.lower() for text in column.texts.known))
    if sign == "=" and is_none(value):
        return np.isnan(column.numbers) & (column.codes < 0)
    if number is not None:
        return COMPARE[sign](column.numbers, number)
    return _with_texts(column, (text == value.text for text in column.texts.known))


def _with_texts(column: Column, are_wanted: Iterable[bool]) -> NDArray[np.bool_]:
    return np.append(np.fromiter(are_wanted, np.bool_), False)[column.codes]  # -1, no text, takes the last


def _summary(field: Field, sign: str, value: FilterText, asked: _Asked) -> NDArray[np.bool_]:
    number = number_of(value)
    if sign == "=" and is_none(value):
        return np.isnan(asked.column(field, value.position).numbers)
    if number is None or sign == "~":
        raise FilterError(f"{field.name} is a number: it takes = != < <= > >= and in, with numbers.", value.position)
    return COMPARE[sign](asked.column(field, value.position).numbers, number)


BUILDERS: dict[str, Build] = {
    "status": _status, "name": _name, "project": _project, "user": _user, "tag": _tag,
    "created": _time("created_at"), "ended": _time("ended_at"),
    "spec": _document, "config": _document, "summary": _summary,
}  # fmt: skip


def _refuse_order(field: Field, sign: str, value: FilterText, *, takes_part: bool = True) -> None:
    if sign not in (("=", "~") if takes_part else ("=",)):
        part = " ~" if takes_part else ""
        raise FilterError(f"{field.name} is a text: it takes = !={part} and in, not {sign}.", value.position)


# What names, tags and ids hold.


def holds(text: str) -> Q:
    """Return whether name or tags hold the text, whatever its case. Of the few runs with a long one an index has not
    all."""
    words = Lower(Value(text))
    found = Q(GreaterThan(StrIndex("found_by", words), 0))
    long = Run.objects.filter(GreaterThan(StrIndex(SEARCHED, words), 0), is_long=True)
    keys = list(long.order_by().values_list("pk", flat=True))
    return found | Q(pk__in=keys) if keys else found


def has_words(words: str) -> Q:
    """Return whether the words, as they stand together, are in name or tags, or begin the id."""
    found = holds(words) | Q(pk__startswith=words)
    # SQLite keeps tags as json.dumps wrote them, with escapes for what is not ASCII; PostgreSQL without.
    return found | holds(escaped) if (escaped := json.dumps(words)[1:-1]) != words else found


def has_tag(tag: str) -> Q:
    if connection.vendor == "postgresql":
        return Q(tags__contains=[tag])  # which has an index of its own there
    text = json.dumps(tag)
    return holds(text) & Q(GreaterThan(StrIndex(Cast("tags", TextField()), Value(text)), 0))


def _contains(text: Any, part: str) -> Q:
    return surely(GreaterThan(StrIndex(Lower(text), Lower(Value(part))), 0))


class _Surely(Func):
    """The condition, and false where it is NULL."""

    template = "(%(expressions)s) IS TRUE"
    arity = 1
    output_field = BooleanField()
    conditional = True


def surely(test: Any) -> Q:
    return Q(_Surely(test))


# Orders. What has no value comes last in both directions.

COLUMNS = {"status": "status", "name": "name", "created": "created_at", "created_at": "created_at"}  # with an index
EXPRESSIONS = {"ended": F("ended_at"), "project": F("project__name"), "user": F("created_by__username")}
MAX_SORTED = 8  # fields
MANY = 4_000  # runs that are looked up rather than all
_SORTED = re.compile(r"""\s*(-?)(?:"((?:[^"\\]|\\.)*)"\s*|([^",]*))(,|\Z)""")


class OrderPlace(NamedTuple):
    """Place of a run in an order: its value, None for none, and its id. Of several fields the value is a list."""

    value: Any
    key: str


class ByExpression(NamedTuple):
    """Order by an expression over columns: every run that fits is looked at."""

    expression: Any
    is_descending: bool

    def place(self, value: Any, key: str) -> OrderPlace:
        if value is None:
            return OrderPlace(None, key)
        if not isinstance(value, str):
            raise ValueError("not a text")
        if self.expression != F("ended_at"):
            return OrderPlace(value, key)
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            raise ValueError("a time without a zone")
        return OrderPlace(moment, key)

    def places(self, runs: QuerySet[Run], after: OrderPlace | None, count: int) -> list[OrderPlace]:
        sign = "-" if self.is_descending else ""
        rows, found = runs.annotate(sorted_by=self.expression), []
        if after is None or after.value is not None:
            some = rows.filter(sorted_by__isnull=False)
            if after is not None:
                place = Value(after.value, output_field=Moment() if isinstance(after.value, datetime) else TextField())
                some = some.filter(beyond_value(Run, "sorted_by", place, after.key, is_descending=self.is_descending))
            found = _places(some.order_by(f"{sign}sorted_by", f"{sign}pk"), count)
            after = None
        return [*found, *_without(rows.filter(sorted_by__isnull=True), after, count - len(found))]

    def ids(self, runs: QuerySet[Run], first: int, count: int) -> list[str]:
        """Return the ids of ``count`` runs from the place ``first`` on."""
        return [place.key for place in self.places(runs, None, first + count)[first:]]


class ByFields(NamedTuple):
    """Order by several fields, each up or down: numbers come before texts, runs that are equal in all go by id."""

    fields: tuple[Field, ...]
    are_descending: tuple[bool, ...]

    def place(self, value: Any, key: str) -> OrderPlace:
        if not isinstance(value, list) or len(value) != len(self.fields):
            raise ValueError("not a place of these fields")
        return OrderPlace([one if one is None or isinstance(one, str) else _number(one) for one in value], key)

    def places(self, runs: QuerySet[Run], after: OrderPlace | None, count: int) -> list[OrderPlace]:
        rows, columns = self._nearest(runs, after, count) or table(runs, self.fields)
        first, ids = self._first(rows, columns, after, count)
        found = zip(first.tolist(), ids, strict=True)
        return [OrderPlace([one.cell(place) for one in columns], key) for place, key in found]

    def ids(self, runs: QuerySet[Run], first: int, count: int) -> list[str]:
        """Return the ids of ``count`` runs from the place ``first`` on, however deep that is."""
        rows, columns = self._nearest(runs, None, first + count) or table(runs, self.fields)
        return self._first(rows, columns, None, first + count)[1][first:]

    def _nearest(
        self, runs: QuerySet[Run], after: OrderPlace | None, count: int
    ) -> tuple[Numbers, list[Column]] | None:
        """Return those of the runs that are nearest of all runs there are, where they are enough: mostly they are."""
        if any(field.kind in FIXED for field in self.fields):
            return None
        columns = [index.column(field, is_checked=place > 0) for place, field in enumerate(self.fields)]
        numbers = index.numbers
        if numbers.size <= max(MANY, 4 * count):
            return None
        nearest = numbers[self._foremost(numbers, [column.at(numbers) for column in columns], after, 4 * count)]
        if nearest.size > MANY:  # that many are equal
            return None
        rows = np.array(packed(runs.filter(number__in=nearest.tolist()))[0], np.int64)
        return (rows, [column.at(rows) for column in columns]) if rows.size >= count else None

    def _first(
        self, rows: Numbers, columns: Sequence[Column], after: OrderPlace | None, count: int
    ) -> tuple[Numbers, list[str]]:
        """Return the first ``count`` places in ``rows``, and the ids of these runs; the columns have their cells."""
        left = self._foremost(rows, columns, after, count)
        ids = index.ids[rows[left]]
        keys = [one.at(left).keys(is_descending=down) for one, down in zip(columns, self.are_descending, strict=True)]
        first = np.lexsort([ids, *reversed(keys)])[:count]
        return left[first], [key.decode() for key in ids[first].tolist()]

    def _foremost(self, rows: Numbers, columns: Sequence[Column], after: OrderPlace | None, count: int) -> Numbers:
        """Return, in no order, the places in ``rows`` among which the first ``count`` are: few, unless many are equal
        in all fields."""
        keys = [one.keys(is_descending=down) for one, down in zip(columns, self.are_descending, strict=True)]
        left = np.arange(rows.size)
        if after is not None:
            is_beyond, is_equal = np.zeros(rows.size, np.bool_), np.ones(rows.size, np.bool_)
            for key, column, cell, down in zip(keys, columns, after.value, self.are_descending, strict=True):
                place = column.key_of(cell, is_descending=down)
                is_beyond |= is_equal & (key > place)
                is_equal &= key == place
            equal = np.flatnonzero(is_equal)
            is_beyond[equal] = index.ids[rows[equal]] > after.key.encode("ascii", "replace")
            left = np.flatnonzero(is_beyond)
        found = []
        for key in keys:
            if left.size <= count or count <= 0:
                break
            own = key[left]
            limit = np.partition(own, count - 1)[count - 1]
            found.append(left[own < limit])
            count, left = count - found[-1].size, left[own == limit]
        return np.concatenate([*found, left])


def order_of(sort: str) -> str | ByExpression | ByFields:
    """Return the order by one or more fields with commas between them, ``-`` in front of one for the largest first: a
    column with an index, or how the places of runs are found. Raises FilterError for what runs are not sorted by."""
    found, end = list[tuple[str, int, bool]](), 0
    while match := _SORTED.match(sort, end):
        name, position = match[3].strip() if match[2] is None else re.sub(r"\\(.)", r"\1", match[2]), match.end(1)
        found.append((name, position, match[1] == "-"))
        end = match.end()
        if not match[4]:
            break
    if end < len(sort) or len(found) > MAX_SORTED:
        words = f"Runs are sorted by at most {MAX_SORTED} fields, with commas between them."
        raise FilterError(words, end if end < len(sort) else found[-1][1], "sort")
    name, _, is_descending = found[0]
    if len(found) == 1 and name in COLUMNS:
        return f"{'-' if is_descending else ''}{COLUMNS[name]}"
    if len(found) == 1 and name in EXPRESSIONS:
        return ByExpression(EXPRESSIONS[name], is_descending)
    fields = tuple(_sorted_by(name, position) for name, position, _ in found)
    return ByFields(fields, tuple(is_descending for *_, is_descending in found))


def _sorted_by(name: str, position: int) -> Field:
    try:
        field = read_field(FilterText("created" if name == "created_at" else name, position))
    except FilterError as error:
        raise FilterError(error.message, error.position, "sort") from None
    if field.kind == "tag":
        raise FilterError("Runs cannot be sorted by tag.", position, "sort")
    return field


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("no number")
    if not math.isfinite(number := float(value)):
        raise ValueError("no finite number")
    return number


def _places(rows: Any, count: int) -> list[OrderPlace]:
    return [OrderPlace(*place) for place in rows.values_list("sorted_by", "pk")[:count]]


def _without(rows: Any, after: OrderPlace | None, count: int) -> list[OrderPlace]:
    """Return the first of the rows that have no value."""
    if count <= 0:
        return []
    rows = rows.filter(pk__gt=after.key) if after else rows
    return _places(rows.order_by("pk"), count)
