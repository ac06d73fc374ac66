"""Columns of a table: numbers or words, what is missing, and what stands where a number should; and the interface of
readers of tables."""

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.training.data.problems import DataProblem
from workers.training.data.progress import DataProgress

MISSING = ("", "?", "NA", "N/A", "#N/A", "na", "n/a", "NaN", "NAN", "nan", "-nan", "NULL", "null", "None", "none")
NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
# A column of which so many of the cells are numbers is one of numbers, and any text in it a mistake.
NUMBER_SHARE = 0.8
NUM_EXAMPLES = 3  # different ones, of so many cells
LOOKED_AT = 100
ROWS_AT_ONCE = 65_536

Floats = np.ndarray[Any, np.dtype[np.float64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


class Batch(NamedTuple):
    """Some rows of a file. Each of ``columns`` is an Arrow array: of text, or of float64, in which null is missing."""

    columns: list[Any]
    path: Path
    first_row: int  # of these, counted from 0 in their file
    num_rows: int


class Table(Protocol):
    """Named columns whose rows come in batches, so that what is larger than memory can be read."""

    @property
    def names(self) -> list[str]:
        """The columns."""

    def batches(self) -> Iterator[Batch]:
        """Yield all rows, in the order of the files; each time anew."""

    def count_rows(self) -> int | None:
        """Return how many rows there are; None where that takes as long as reading them all, and they are many."""

    def place(self, path: Path, row: int) -> str:
        """Return where a person finds row ``row`` (from 0) of a file: of a text, its line."""


class Cells(NamedTuple):
    """A batch of a column. ``numbers`` has NaN where there is none; ``words`` is None for a column of numbers."""

    numbers: Floats
    missing: Mask
    text: Mask  # neither a number nor missing
    words: Any  # Arrow's text, without blanks around it; missing ones are null


def read_cells(column: Any) -> Cells:
    """Return what the cells of a batch of a column hold."""
    if pa.types.is_floating(column.type):
        # No -0, which Arrow finds nowhere among 0.
        numbers = pc.fill_null(column, math.nan).to_numpy(zero_copy_only=False) + 0.0
        return Cells(numbers, np.isnan(numbers), np.zeros(len(numbers), np.bool_), None)
    words = pc.utf8_trim_whitespace(column)
    missing = pc.or_kleene(pc.is_null(words), pc.is_in(words, value_set=pa.array(MISSING)))
    words = pc.if_else(missing, pa.scalar(None, pa.string()), words)
    try:
        parsed = pc.cast(words, pa.float64())
    except pa.ArrowInvalid:
        are_numbers = pc.match_substring_regex(words, NUMBER)
        parsed = pc.cast(pc.if_else(are_numbers, words, pa.scalar(None, pa.string())), pa.float64())
    numbers = pc.fill_null(parsed, math.nan).to_numpy(zero_copy_only=False) + 0.0
    lacks = missing.to_numpy(zero_copy_only=False)
    return Cells(numbers, lacks, ~np.isfinite(numbers) & ~lacks, words)


class Column:
    """Facts about a column after all of its batches, or those that were looked at."""

    def __init__(self, name: str, most_distinct: int) -> None:
        self.name = name
        self.num_rows = self.num_numbers = self.num_missing = self.num_text = 0
        self.mean, self._squares = 0.0, 0.0
        self.smallest, self.largest = math.inf, -math.inf
        self.are_whole = True
        # How often each value is there, until there are too many to count: by number, or by word.
        self.numbers: dict[float, int] | None = {}
        self.words: dict[str, int] | None = {}
        self.examples: list[Any] = []
        self.is_text = False  # held as text, where a number may be a word
        self.first_text: tuple[Path, int, str] | None = None
        self.first_missing: tuple[Path, int] | None = None
        self.first_infinite: tuple[Path, int] | None = None
        self._most_distinct = most_distinct

    @property
    def is_words(self) -> bool:
        return self.num_text > 0 and self.num_numbers < NUMBER_SHARE * (self.num_numbers + self.num_text)

    @property
    def deviation(self) -> float:
        return math.sqrt(self._squares / self.num_numbers) if self.num_numbers else 0.0

    def add(self, cells: Cells, batch: Batch) -> None:
        self.num_rows += batch.num_rows
        if not self.examples:
            some = cells.words if cells.words is not None else pa.array(cells.numbers, from_pandas=True)
            self.examples = list(dict.fromkeys(some[:LOOKED_AT].drop_null().to_pylist()))[:NUM_EXAMPLES]
        self.num_missing += int(cells.missing.sum())
        self.num_text += int(cells.text.sum())
        if self.first_missing is None and cells.missing.any():
            self.first_missing = batch.path, batch.first_row + int(cells.missing.argmax())
        if cells.words is not None:
            self.is_text = True
            if self.first_text is None and cells.text.any():
                row = int(cells.text.argmax())
                self.first_text = batch.path, batch.first_row + row, str(cells.words[row])
            self.words = _counted(self.words, cells.words, self._most_distinct)
        self._add_numbers(cells.numbers[~cells.missing & ~cells.text], batch, cells)

    def _add_numbers(self, numbers: Floats, batch: Batch, cells: Cells) -> None:
        if not len(numbers):
            return
        if not np.isfinite(numbers).all():
            row = int(np.isinf(cells.numbers).argmax())
            self.first_infinite = self.first_infinite or (batch.path, batch.first_row + row)
            return
        # Chan, Golub and LeVeque (1979): the deviation of two parts together, without a second look.
        count, mean = len(numbers), float(numbers.mean())
        total, difference = self.num_numbers + count, mean - self.mean
        self._squares += float(((numbers - mean) ** 2).sum()) + difference**2 * self.num_numbers * count / total
        self.mean += difference * count / total
        self.num_numbers = total
        self.smallest, self.largest = min(self.smallest, float(numbers.min())), max(self.largest, float(numbers.max()))
        self.are_whole = self.are_whole and bool((numbers == np.floor(numbers)).all())
        self.numbers = _counted(self.numbers, pa.array(numbers), self._most_distinct)


def _counted(counts: dict[Any, int] | None, values: Any, most: int) -> dict[Any, int] | None:
    """Add how often each value is there to ``counts``; None from where there are more than ``most``."""
    if counts is None:
        return None
    found = pc.value_counts(values)
    if len(found) > most + 1:  # and missing ones
        return None
    for one in found:
        value = one["values"].as_py()
        if value is not None:
            counts[value] = counts.get(value, 0) + one["counts"].as_py()
        if len(counts) > most:
            return None
    return counts


def look_at(table: Table, most_distinct: Sequence[int], num_rows: int | None = None) -> list[Column]:
    """Read the table's columns, all rows or the first ``num_rows``; ``most_distinct`` is of each column.

    Raises DataProblem for text, or something infinite, in a column of numbers.
    """
    columns = [Column(name, most) for name, most in zip(table.names, most_distinct, strict=True)]
    progress = DataProgress("looking at the columns", num_rows, "rows")
    for batch in table.batches():
        progress.add(batch.num_rows)
        for column, cells in zip(columns, batch.columns, strict=True):
            column.add(read_cells(cells), batch)
        if num_rows is not None and columns[0].num_rows >= num_rows:
            break
    for column in columns:
        _refuse_odd_cells(table, column)
    return columns


def _refuse_odd_cells(table: Table, column: Column) -> None:
    if column.first_infinite is not None:
        raise DataProblem(f"{table.place(*column.first_infinite)}, column {column.name!r} is infinite: correct it")
    if column.first_text is None:
        return
    path, row, value = column.first_text
    if DECIMAL_COMMA.fullmatch(value):
        words = f"write numbers with a point, as {value.replace(',', '.')}"
        raise DataProblem(f"{table.place(path, row)}, column {column.name!r} holds {value!r}: {words}")
    if column.is_words:
        return
    cells = column.num_numbers + column.num_text
    raise DataProblem(
        f"{table.place(path, row)}, column {column.name!r} holds the text {value[:60]!r} where {column.num_numbers:,} "
        f"of {cells:,} cells are numbers: correct it, or leave the cell empty where the number is missing"
    )
