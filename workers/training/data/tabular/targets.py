"""Targets of a table: one of some classes, or a quantity."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from workers.training.data.problems import DataProblem
from workers.training.data.storage.arrays import Array
from workers.training.data.storage.sample_files import Numbers
from workers.training.data.tabular.columns import Cells, Column
from workers.training.data.tabular.table_parts import Table

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
        _refuse_one_class(column, [f"{value:.0f}" for value in values], location)
        names = tuple(f"{value:.0f}" for value in values)
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


def _refuse_one_class(column: Column, values: list[str], location: str) -> None:
    if len(values) < 2:
        raise DataProblem(
            f"{location}, the target {column.name!r} is {values[0]!r} in all {column.num_rows:,} rows: there is "
            "nothing to learn"
        )
