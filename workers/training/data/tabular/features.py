"""The numbers that a model sees of a table's columns."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from workers.training.data.problems import DataProblem
from workers.training.data.storage.npz_arrays import Array
from workers.training.data.storage.sample_files import Numbers
from workers.training.data.tabular.columns import Cells, Column, Table

MAX_WORDS = 100


class FeatureDocument(TypedDict, total=False):
    """Origin of a feature in its column: a word, a number with its scale, or that the cell is missing."""

    name: str
    column: str
    word: str
    mean: float
    deviation: float
    missing: bool


@dataclass(frozen=True, slots=True)
class Features:
    """For each column its number or a feature for each of its words, then an indicator where any cell is missing."""

    columns: Sequence[Column]
    words: Sequence[list[str]]  # of each column; none for numbers
    names: list[str]
    are_numbers: Array

    @property
    def width(self) -> int:
        return len(self.names)

    def encode(self, columns: Sequence[Cells]) -> Array:
        """Return float32 (rows, features): numbers about standardised by all rows, so that float32 is enough for
        any, NaN where they are missing; words and indicators as 0 and 1."""
        rows, place = np.zeros((len(columns[0].missing), self.width), np.float32), 0
        for cells, column, words in zip(columns, self.columns, self.words, strict=True):
            if words:
                found = pc.fill_null(pc.index_in(cells.words, value_set=pa.array(words)), -1)
                found = found.to_numpy(zero_copy_only=False)
                there = found >= 0
                rows[np.flatnonzero(there), place + found[there]] = 1
                place += len(words)
            else:
                rows[:, place] = (cells.numbers - column.mean) / (column.deviation or 1.0)
                place += 1
            if column.num_missing:
                rows[:, place] = cells.missing
                place += 1
        return rows

    def described(self, mean: Array, deviation: Array) -> list[FeatureDocument]:
        """Return for each feature what made it of its column: enough to make it of other rows. ``mean`` and
        ``deviation`` are those of the training rows, as ``encode`` left them."""
        encoded: list[FeatureDocument] = []
        for column, words in zip(self.columns, self.words, strict=True):
            encoded += [{"column": column.name, "word": word} for word in words]
            if not words:
                scale, place = column.deviation or 1.0, len(encoded)
                encoded.append(
                    {
                        "column": column.name,
                        "mean": column.mean + float(mean[place]) * scale,
                        "deviation": float(deviation[place]) * scale,
                    }
                )
            if column.num_missing:
                encoded.append({"column": column.name, "missing": True})
        for name, one in zip(self.names, encoded, strict=True):
            one["name"] = name
        return encoded


def read_features(columns: Sequence[Column], location: str) -> Features:
    """Return how to encode these columns. Raises DataProblem for one with too many words."""
    names: list[str] = []
    numbers: list[bool] = []
    words: list[list[str]] = []
    for column in columns:
        own = _words(column, location)
        new = [f"{column.name} = {word}" for word in own] or [column.name]
        if column.num_missing:
            new.append(f"{column.name} is missing")
        names += new
        numbers += [not own and index == 0 for index in range(len(new))]
        words.append(own)
    return Features(columns, words, names, np.array(numbers, np.bool_))


def _words(column: Column, location: str) -> list[str]:
    if not column.is_words:
        return []
    if column.words is None or len(column.words) > MAX_WORDS:
        words = "leave it out of the file, or group them"
        raise DataProblem(f"{location}, column {column.name!r} holds more than {MAX_WORDS} different words: {words}")
    return sorted(column.words)


MAX_CLASSES = 10_000  # words
MAX_NUMBER_CLASSES = 100  # whole numbers; more of them are a quantity


@dataclass(frozen=True, slots=True)
class Targets:
    """``classes`` is empty for a quantity; ``shift`` and ``scale`` are then the mean and deviation of all rows."""

    classes: tuple[str, ...]
    values: tuple[str, ...] | tuple[float, ...]  # of the classes, as they stand in the column
    class_counts: list[int]  # of a quantity, all rows
    shift: float = 0.0
    scale: float = 1.0

    @property
    def is_quantity(self) -> bool:
        return not self.classes

    @property
    def dtype(self) -> npt.DTypeLike:
        return np.float32 if self.is_quantity else np.int64

    def encode(self, cells: Cells) -> tuple[Array, Numbers]:
        """Return the targets, and the numbers of their classes for the split."""
        if self.is_quantity:
            return (cells.numbers - self.shift) / self.scale, np.zeros(len(cells.numbers), np.int64)
        if isinstance(self.values[0], str):
            found = pc.index_in(cells.words, value_set=pa.array(self.values))
        else:
            found = pc.index_in(pa.array(cells.numbers), value_set=pa.array(self.values))
        classes = found.to_numpy(zero_copy_only=False).astype(np.int64)
        return classes, classes


def read_targets(table: Table, column: Column, location: str, *, is_quantity: bool = False) -> Targets:
    """Return what is learnt of ``column``. Raises DataProblem for a missing target, and for what has no two classes."""
    if not column.num_rows:
        raise DataProblem(f"{location} has no rows below its columns' names")
    if column.first_missing is not None:
        words = "fill it in, or leave the row out"
        raise DataProblem(f"{table.place(*column.first_missing)} has no target, column {column.name!r}: {words}")
    if column.is_words:
        return _classes_of_words(column, location)
    numbers = column.numbers if column.are_whole and not is_quantity else None
    if numbers is not None and len(numbers) <= MAX_NUMBER_CLASSES:
        values = sorted(numbers)
        names = tuple(f"{value:.0f}" for value in values)
        _refuse_one_class(column, names, location)
        return Targets(names, tuple(values), [numbers[value] for value in values])
    _refuse_one_class(column, [str(column.smallest)] * (1 + (column.smallest < column.largest)), location)
    assert math.isfinite(column.mean)
    return Targets((), (), [column.num_rows], column.mean, column.deviation or 1.0)


def _classes_of_words(column: Column, location: str) -> Targets:
    if column.words is None:
        raise DataProblem(
            f"{location}, the target {column.name!r} holds more than {MAX_CLASSES:,} different words: classes are fewer"
        )
    values = sorted(column.words)
    _refuse_one_class(column, values, location)
    return Targets(tuple(values), tuple(values), [column.words[value] for value in values])


def _refuse_one_class(column: Column, values: Sequence[str], location: str) -> None:
    if len(values) < 2:
        raise DataProblem(
            f"{location}, the target {column.name!r} is {values[0]!r} in all {column.num_rows:,} rows: there is "
            "nothing to learn"
        )
