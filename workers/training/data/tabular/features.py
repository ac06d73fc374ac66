"""The numbers that a model sees of a table's columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.training.data.problems import DataProblem
from workers.training.data.storage.arrays import Array
from workers.training.data.tabular.columns import Cells, Column

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
