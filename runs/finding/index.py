"""Columns of all runs in memory: what makes a filter, an order or a group by any field cheap.

A ``Column`` holds what every run has in one field, at the place of the run's ``number``, which counts runs and never
comes again. It is made when somebody first asks for the field, by reading every run once, and belongs to this process.
From then on it is kept current, each time that it is asked for, by reading only what is new:

- runs that were submitted: of the newest numbers those not known yet (on PostgreSQL a number may be committed late);
- runs whose configuration was changed since, by ``described_at``;
- every REFRESH_S seconds, the figures of runs of which records have come: by ``record_minute`` and the cursor.

Nothing here decides who sees a run, or whether there is one: a column answers a query of the database, which gets a
byte for each number (``numbered``), or whose numbers are looked up in it (``packed``). So a run that was deleted is
gone at once; its values go with the process.

Where there are more than AT_ONCE runs a thread reads them, and who asks longer than WAIT_S gets ``Building``.
"""

import bisect
import json
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, ClassVar

import msgspec
import numpy as np
from django.db import connections
from django.db.models import Aggregate, BooleanField, F, FloatField, Func, Max, Q, QuerySet, TextField
from numpy.typing import NDArray

from runs.finding.fields import Cell, Field
from runs.finding.language import FilterError
from runs.models import Run
from runs.records.metrics.models import Telemetry
from runs.records.points import read

log = logging.getLogger(__name__)

AT_ONCE = 20_000  # runs that a request reads itself
WAIT_S = 1.0
REFRESH_S = 2.0
NEWEST = 500  # numbers among which a late one is looked for
PART = 2_000  # runs that are read by one query
MAX_BYTES = 192 * 1024 * 1024  # of all columns
MAX_TEXT = 2_000  # characters
OVERLAP = timedelta(minutes=1)  # of two clocks
FIGURES = ("last", "min", "max")
MEAN = "mean"  # which costs more, and is a column of its own
_EPOCH = datetime.fromisoformat("1971-01-01T00:00:00+00:00")
RunCells = tuple[str, tuple[Cell, ...]]
Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]


class Building(FilterError):
    """The column is still being made. Ask again."""

    def __init__(self, name: str, share: float) -> None:
        super().__init__(f"The column {name} is being made: {share:.0%} of the runs are read. Ask again soon.", 0)
        self.share = share


class Texts:
    """The different texts of a column, and their ranks."""

    def __init__(self) -> None:
        self.known: list[str] = []
        self._codes: dict[str, int] = {}
        self._sorted: tuple[list[str], Numbers] = [], np.zeros(0, np.int64)

    def code_of(self, text: str) -> int:
        code = self._codes.setdefault(text, len(self.known))
        if code == len(self.known):
            self.known.append(text)
        return code

    def ranked(self) -> tuple[list[str], Numbers]:
        """Return the texts in their order, and the rank of each by its code."""
        if len(self._sorted[0]) != len(self.known):
            order = sorted(range(len(self.known)), key=self.known.__getitem__)
            self._sorted = [self.known[code] for code in order], np.argsort(order)
        return self._sorted


@dataclass
class Column:
    """Values of one field at the runs' numbers, or in the order of some: NaN is no number, -1 no text."""

    numbers: Floats
    codes: NDArray[np.int32]
    texts: Texts

    @classmethod
    def empty(cls, size: int) -> "Column":
        return cls(np.full(size, np.nan), np.full(size, -1, np.int32), Texts())

    @classmethod
    def of(cls, cells: Sequence[Cell]) -> "Column":
        """Return the column of these cells, which are all texts or all numbers."""
        column = cls.empty(len(cells))
        if any(isinstance(cell, float) for cell in cells):
            column.numbers = np.array(cells, np.float64)
        else:
            codes = {cell: -1 if cell is None else column.texts.code_of(str(cell)) for cell in dict.fromkeys(cells)}
            column.codes = np.fromiter((codes[cell] for cell in cells), np.int32, len(cells))
        return column

    def at(self, places: Numbers) -> "Column":
        return Column(self.numbers[places], self.codes[places], self.texts)

    @property
    def num_bytes(self) -> int:
        return self.numbers.nbytes + self.codes.nbytes + sum(150 + len(text) for text in self.texts.known)

    def grow(self, size: int) -> None:
        if (more := size - self.numbers.size) > 0:
            self.numbers = np.concatenate([self.numbers, np.full(more, np.nan)])
            self.codes = np.concatenate([self.codes, np.full(more, -1, np.int32)])

    def put(self, place: int, cell: Cell) -> None:
        self.numbers[place] = np.nan if cell is None or isinstance(cell, str) else cell
        self.codes[place] = self.texts.code_of(cell) if isinstance(cell, str) else -1

    def cell(self, place: int) -> Cell:
        if (code := int(self.codes[place])) >= 0:
            return self.texts.known[code]
        value = float(self.numbers[place])
        return value if value == value else None

    def keys(self, *, is_descending: bool) -> Floats:
        """Return what each place is sorted by, the least first: numbers, then texts, then what has neither."""
        values = np.clip(self.numbers, -LARGEST, LARGEST)
        keys = np.where(np.isnan(values), np.inf, -values if is_descending else values)
        if (are_texts := self.codes >= 0).any():
            _, ranks = self.texts.ranked()
            keys[are_texts] = _text_key(ranks[self.codes[are_texts]], len(ranks), is_descending)
        return keys

    def key_of(self, cell: Cell, *, is_descending: bool) -> float:
        """Return the same of any cell, also of one that no run has."""
        if cell is None:
            return float("inf")
        if not isinstance(cell, str):
            value = min(max(cell, -LARGEST), LARGEST)
            return -value if is_descending else value
        known, _ = self.texts.ranked()
        place = bisect.bisect_left(known, cell)
        rank = place if place < len(known) and known[place] == cell else place - 0.5
        return float(_text_key(rank, len(known), is_descending))


LARGEST, TEXT, STEP = 1e300, 2e300, 1e-9  # of keys: the largest number, the first text, and from one text to the next


def _text_key(rank: Any, count: int, is_descending: bool) -> Any:
    return TEXT * (1 + STEP * (count - rank if is_descending else rank))


@dataclass
class _Held:
    field: Field
    columns: dict[str, Column]  # of a series by statistic, else one under ""
    num_read: int  # of the runs in their order of arrival


class Index:
    """The columns of this process, and what is needed to keep them current."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._job: threading.Thread | None = None
        self._forget()

    def _forget(self) -> None:
        self.ids = np.zeros(1, "S12")  # by number
        self.numbers: Numbers = np.zeros(0, np.int64)  # of all known runs, as they were seen, deleted ones too
        self._by_id, self._sorted_ids = np.zeros(0, np.int64), np.zeros(0, "S12")  # the numbers by their runs' ids
        self._held: OrderedDict[tuple[str, ...], _Held] = OrderedDict()
        self._share = 0.0  # of the runs that the job has read
        self._cursors: dict[str, int] = {}
        self._described: dict[int, datetime] = {}
        self._minute, self._described_at, self._looked_at = 0, _EPOCH, 0.0

    def know(self) -> None:
        """Take note of all runs that there are."""
        with self._lock:
            if self._check():
                self._add(self._unknown(0))

    def column(self, field: Field, *, is_checked: bool = False) -> Column:
        """Return the column of a field of the spec, the configuration or a summary, as it is now; ``is_checked``: for
        this request another one was asked for already. Raises Building."""
        key = (field.kind, field.series, field.statistic if field.statistic == MEAN else "", *field.path)
        for _ in range(2):
            with self._lock:
                num_unread = 0 if is_checked and self.numbers.size else self._check()
                held = self._held.get(key)
                if held is not None and not num_unread and self.numbers.size - held.num_read <= AT_ONCE:
                    self._held.move_to_end(key)
                    self._catch_up()
                    found = held.columns[field.statistic if field.kind == "summary" else ""]
                    found.grow(self.ids.size)
                    return replace(found)  # whose arrays stay as long as they are
                if self.numbers.size + num_unread <= AT_ONCE:
                    self._make(key, field)
                    continue
                if self._job is None or not self._job.is_alive():
                    self._job = threading.Thread(target=self._work, args=(key, field), name="columns", daemon=True)
                    self._job.start()
                job = self._job
            job.join(WAIT_S)
        raise Building(field.name, self._share)

    def _check(self) -> int:
        """Take note of new runs; return how many there are beyond AT_ONCE, which are left."""
        newest = list(Run.objects.order_by("-number").values_list("number", "pk")[:NEWEST])
        if any(number < self.ids.size and self.ids[number] not in (b"", pk.encode()) for number, pk in newest):
            self._forget()  # this is another database than before
        new = [one for one in newest if self._is_new(one[0])]
        if len(new) == NEWEST:
            last = max(0, int(self.numbers.max(initial=0)) - NEWEST)
            if newest[0][0] - last > AT_ONCE:
                return int(newest[0][0] - last)
            new = self._unknown(last)
        self._add(new)
        return 0

    def _unknown(self, above: int) -> list[tuple[int, str]]:
        known = Run.objects.order_by().filter(number__gt=above).values_list("number", "pk")
        return [one for one in known.iterator(PART) if self._is_new(one[0])]

    def _is_new(self, number: int) -> bool:
        return number >= self.ids.size or not self.ids[number]

    def _add(self, new: Sequence[tuple[int, str]]) -> None:
        if not new:
            return
        numbers = np.array([number for number, _ in new], np.int64)
        if (more := int(numbers.max()) + 1 - self.ids.size) > 0:
            self.ids = np.concatenate([self.ids, np.zeros(more + self.ids.size // 16, "S12")])
        self.ids[numbers] = [pk.encode() for _, pk in new]
        self.numbers = np.concatenate([self.numbers, numbers])

    def numbers_of(self, run_ids: Sequence[str]) -> Numbers:
        """Return the number of each run, 0 for one that is not known."""
        if (new := self.numbers[self._by_id.size :]).size:
            new = new[np.argsort(self.ids[new])]
            at = np.searchsorted(self._sorted_ids, self.ids[new])
            self._by_id = np.insert(self._by_id, at, new)
            self._sorted_ids = np.insert(self._sorted_ids, at, self.ids[new])
        if not self._by_id.size:
            return np.zeros(len(run_ids), np.int64)
        wanted = np.array([one.encode() for one in run_ids], "S12")
        places = np.minimum(np.searchsorted(self._sorted_ids, wanted), self._by_id.size - 1)
        return np.where(self._sorted_ids[places] == wanted, self._by_id[places], 0)

    # Making a column.

    def _work(self, key: tuple[str, ...], field: Field) -> None:
        try:
            new = self._unknown(max(0, int(self.numbers.max(initial=0)) - NEWEST))
            with self._lock:
                self._add([one for one in new if self._is_new(one[0])])
            self._make(key, field)
        except Exception:  # who asks next starts it again
            log.exception("column %s could not be made", field.name)
        finally:
            connections.close_all()

    def _make(self, key: tuple[str, ...], field: Field) -> None:
        with self._lock:
            num_read, top = self.numbers.size, int(self.numbers.max(initial=0))
        minute = Telemetry.objects.aggregate(newest=Max("record_minute"))["newest"] or 0
        described = Run.objects.filter(described_at__isnull=False).aggregate(newest=Max("described_at"))
        described_at = described["newest"] or _EPOCH
        names = ("",) if field.kind != "summary" else (MEAN,) if field.statistic == MEAN else FIGURES
        held = _Held(field, {name: Column.empty(top + 1) for name in names}, num_read)
        self._share = 0.0
        if field.kind == "summary":
            for count, part in enumerate(_parts(_figures(field))):
                self._put_figures(held, part)
                self._share = min(1.0, count * PART / max(1, num_read))
        else:
            for low in range(0, top + 1, PART):
                _put(held.columns[""], *_documents(field, number__gt=low, number__lte=low + PART))
                self._share = low / (top + 1)
        with self._lock:
            # What has changed while this was read is read once more, for every column.
            if self._held:
                minute, described_at = min(self._minute, minute), min(self._described_at, described_at)
            self._minute, self._described_at, self._cursors, self._described = minute, described_at, {}, {}
            self._held[key] = held
            while len(self._held) > 1 and sum(self._bytes()) > MAX_BYTES:
                self._held.popitem(last=False)

    def _bytes(self) -> Iterator[int]:
        return (column.num_bytes for held in self._held.values() for column in held.columns.values())

    def _put_figures(self, held: _Held, part: Sequence[RunCells]) -> None:
        with self._lock:
            numbers = self.numbers_of([run_id for run_id, _ in part])
        known = np.flatnonzero(numbers)
        for which, column in enumerate(held.columns.values()):
            _put(column, numbers[known], [part[place][1][which] for place in known.tolist()])

    # Keeping columns current.

    def _catch_up(self) -> None:
        for key, held in list(self._held.items()):
            new = self.numbers[held.num_read :].tolist()
            if len(new) > AT_ONCE:
                del self._held[key]  # to be made anew by who asks for it
            elif new:
                self._read_again(held, new)
                held.num_read = self.numbers.size
        described = Run.objects.filter(described_at__gte=self._described_at - OVERLAP)
        rows = described.order_by().values_list("number", "described_at")
        moments = {number: at for number, at in rows if at is not None}
        if changed := [number for number, at in moments.items() if self._described.get(number) != at]:
            for held in self._held.values():
                if held.field.kind != "summary":
                    self._read_again(held, changed)
        self._described, self._described_at = moments, max([*moments.values(), self._described_at])
        if time.monotonic() - self._looked_at > REFRESH_S:
            self._look()

    def _look(self) -> None:
        series = [held for held in self._held.values() if held.field.kind == "summary"]
        if not series:
            return
        came = Telemetry.objects.filter(record_minute__gte=max(1, self._minute - 1))
        rows = list(came.values_list("run_id", "cursor", "record_minute"))
        numbers = self.numbers_of([run_id for run_id, cursor, _ in rows if self._cursors.get(run_id) != cursor])
        for held in series:
            self._read_again(held, numbers[numbers > 0].tolist())
        self._cursors = {run_id: cursor for run_id, cursor, _ in rows}
        self._minute = max([self._minute, *(minute for *_, minute in rows)])
        self._looked_at = time.monotonic()

    def _read_again(self, held: _Held, numbers: Sequence[int]) -> None:
        for column in held.columns.values():
            column.grow(self.ids.size)
        for first in range(0, len(numbers), PART):
            some = numbers[first : first + PART]
            if held.field.kind != "summary":
                _put(held.columns[""], *_documents(held.field, number__in=some))
                continue
            for part in _parts(_figures(held.field, [one.decode() for one in self.ids[some].tolist()])):
                self._put_figures(held, part)


def _put(column: Column, numbers: Numbers, cells: Sequence[Cell]) -> None:
    column.grow(int(numbers.max(initial=0)) + 1)
    if not any(isinstance(cell, str) for cell in cells):
        column.numbers[numbers], column.codes[numbers] = np.array(cells, np.float64), -1
        return
    for number, cell in zip(numbers.tolist(), cells, strict=True):
        column.put(number, cell)


def _figures(field: Field, run_ids: Sequence[str] | None = None) -> Iterator[RunCells]:
    """Yield for each run its figures in the order of the columns."""
    if field.statistic != MEAN:
        return read.figures(field.series, run_ids)
    return ((run, (mean,)) for run, mean in read.means(field.series, run_ids))


def _parts(found: Iterator[RunCells]) -> Iterator[list[RunCells]]:
    while part := list(islice(found, PART)):
        yield part


def _documents(field: Field, **which: Any) -> tuple[Numbers, list[Cell]]:
    number, text = AtPath(field, "number"), AtPath(field, "text")
    rows = list(Run.objects.order_by().filter(**which).values_list("number", number, text))
    cells = [words[:MAX_TEXT] if value is None and words is not None else value for _, value, words in rows]
    return np.array([key for key, *_ in rows], np.int64), cells


class AtPath(Func):
    """The value at a path of keys in the spec or the configuration: as a number, or as a text (true, false and lists
    are texts). NULL where there is nothing, null, or something else."""

    arity = 1
    ON_SQLITE: ClassVar = {
        "number": "CASE WHEN JSON_TYPE({0}) IN ('integer', 'real') AND JSON_EXTRACT({0}) BETWEEN -1e300 AND 1e300 "
        "THEN JSON_EXTRACT({0}) END",
        "text": "CASE JSON_TYPE({0}) WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' WHEN 'text' THEN "
        "JSON_EXTRACT({0}) WHEN 'array' THEN JSON_EXTRACT({0}) END",
    }
    ON_POSTGRESQL: ClassVar = {
        "number": "CASE WHEN jsonb_typeof({0}) <> 'number' THEN NULL WHEN abs(({0})::numeric) < 1e300 "
        "THEN ({0})::double precision END",
        "text": "CASE WHEN jsonb_typeof({0}) IN ('string', 'boolean', 'array') THEN ({0}) #>> '{{}}' END",
    }

    def __init__(self, field: Field, wanted: str) -> None:
        super().__init__(F(field.kind), output_field=FloatField() if wanted == "number" else TextField())
        self._path, self._wanted = field.path, wanted

    def as_sql(self, compiler: Any, connection: Any, *arguments: Any, **context: Any) -> Any:
        column, _ = compiler.compile(self.source_expressions[0])
        if connection.vendor == "sqlite":
            text, place = self.ON_SQLITE[self._wanted], f"{column}, %s"
            value: Any = "$" + "".join(f".{json.dumps(key, ensure_ascii=False)}" for key in self._path)
        else:
            text, place, value = self.ON_POSTGRESQL[self._wanted], f"{column} #> %s", list(self._path)
        return text.format(place), [value] * text.count("{0}")


# Between columns and queries of the database.


class _InMask(Func):
    """The byte at the number is 1; a number beyond the bytes is none of them. It is looked at in each row."""

    arity = 1
    output_field = BooleanField()
    conditional = True

    def __init__(self, *expressions: Any, mask: bytes, **extra: Any) -> None:
        super().__init__(*expressions, mask=mask, **extra)

    def as_sql(self, compiler: Any, connection: Any, *arguments: Any, **context: Any) -> Any:
        text, parameters = compiler.compile(self.source_expressions[0])
        mask = [connection.Database.Binary(one) for one in (self.extra["mask"], b"\1")]
        return f"(SUBSTR(%s, CAST({text} AS integer) + 1, 1) = %s)", [mask[0], *parameters, mask[1]]


FEW = 200  # runs that are looked up


def numbered(mask: NDArray[np.bool_]) -> Q:
    """Return the condition that the mask is true at the run's number."""
    hits = np.flatnonzero(mask)
    if hits.size <= FEW and hits.size < mask.size / 100:
        return Q(number__in=hits.tolist())
    return Q(_InMask(F("number"), mask=mask.astype(np.uint8).tobytes()))


class _Packed(Aggregate):
    """All values of the rows as one JSON list: a row at a time costs ten times as much."""

    output_field = TextField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template="JSON_GROUP_ARRAY(%(expressions)s)", **context)

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template="CAST(JSON_AGG(%(expressions)s) AS text)", **context)


def packed(query: QuerySet[Run], *columns: str) -> list[list[Any]]:
    """Return the numbers of the runs of the query, and then each of the columns, in one order."""
    names = {f"packed_{place}": _Packed(F(name)) for place, name in enumerate(("number", *columns))}
    found = query.order_by().aggregate(**names)
    return [msgspec.json.decode(found[name] or "[]") for name in names]


index = Index()
