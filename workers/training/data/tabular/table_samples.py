"""Samples of a table: its columns as standardised numbers, words one-hot, an indicator for what is missing.

There are two passes over the files, for the columns and for the rows, and one over the written rows, since only then
the mean and deviation of the training rows are known. Memory holds a block of rows and statistics of the columns.
"""

from pathlib import Path

import numpy as np

from workers.training.data.progress import DataProgress
from workers.training.data.sources.files import Files
from workers.training.data.storage.cache import Facts
from workers.training.data.storage.npz_arrays import Array, NpyWriter, open_array
from workers.training.data.storage.sample_files import PARTS, SamplesWriter, Split, refuse_too_few
from workers.training.data.tabular.columns import ROWS_AT_ONCE, Table, look_at, read_cells
from workers.training.data.tabular.features import (
    MAX_CLASSES,
    MAX_WORDS,
    Features,
    Targets,
    read_features,
    read_targets,
)


def write_table(folder: Path, table: Table, files: Files, target: str, *, is_quantity: bool = False) -> Facts:
    """Write the table's samples into ``folder``, an entry of the cache, and return the facts.

    Raises DataProblem for what is wrong with a cell or a column.
    """
    place = table.names.index(target)
    columns = look_at(table, [MAX_CLASSES if index == place else MAX_WORDS for index in range(len(table.names))])
    targets = read_targets(table, columns.pop(place), files.location, is_quantity=is_quantity)
    features = read_features(columns, files.location)
    refuse_too_few(files.location, targets.class_counts)
    raw = folder / "raw"
    raw.mkdir()
    sums = _Sums(features, targets)
    with SamplesWriter(raw, Split(targets.class_counts), (np.float32, (features.width,)), targets.dtype) as writer:
        progress = DataProgress(f"reading {files.location}", sum(targets.class_counts), "rows")
        for batch in table.batches():
            progress.add(batch.num_rows)
            cells = [read_cells(column) for column in batch.columns]
            answers, classes = targets.encode(cells.pop(place))
            inputs = features.encode(cells)
            validates = writer.append(inputs, answers, classes)
            sums.add(inputs[~validates], answers[~validates])
    for name in (f"{part}_inputs.npy" for part in PARTS):
        _standardise(raw / name, folder / name, *sums.scales)
    for name in (f"{part}_targets.npy" for part in PARTS):
        if targets.is_quantity:
            _standardise(raw / name, folder / name, *sums.answer_scales)
        else:
            (raw / name).rename(folder / name)
    raw.rmdir()
    mean, deviation = sums.target_scale
    return {
        **writer.num_rows,
        "num_rows": sum(targets.class_counts),
        "num_features": features.width,
        "num_classes": len(targets.classes),
        "classes": list(targets.classes),
        "encoding": features.described(*sums.scales),
        **({"target_mean": mean, "target_deviation": deviation} if targets.is_quantity else {}),
    }


class _Sums:
    """Mean and deviation of the training rows, of what pass two wrote."""

    def __init__(self, features: Features, targets: Targets) -> None:
        self._features, self._targets = features, targets
        width = features.width
        self._count, self._sum, self._squares = np.zeros(width), np.zeros(width), np.zeros(width)
        self._answers = np.zeros(3)

    def add(self, inputs: Array, answers: Array) -> None:
        there = ~np.isnan(inputs)
        values = np.where(there, inputs, 0).astype(np.float64)
        self._count += there.sum(0)
        self._sum += values.sum(0)
        self._squares += (values**2).sum(0)
        if self._targets.is_quantity:
            exact = answers.astype(np.float64)
            self._answers += (len(exact), exact.sum(), (exact**2).sum())

    @property
    def scales(self) -> tuple[Array, Array]:
        """Mean and deviation of the features, of what pass two wrote; 0 and 1 of what is no number."""
        mean, deviation = _scales(self._count, self._sum, self._squares)
        mean[~self._features.are_numbers], deviation[~self._features.are_numbers] = 0, 1
        return mean, deviation

    @property
    def answer_scales(self) -> tuple[Array, Array]:
        return _scales(*self._answers)

    @property
    def target_scale(self) -> tuple[float, float]:
        """Mean and deviation of the training rows' targets, in the unit of the table."""
        mean, deviation = self.answer_scales
        return float(self._targets.shift + mean * self._targets.scale), float(deviation * self._targets.scale)


def _standardise(source: Path, target: Path, mean: Array, deviation: Array) -> None:
    """Put the mean where there is no number; one-hots and indicators, whose mean is 0, stay 0 and 1."""
    values = open_array(source)
    with NpyWriter(target, np.float32, values.shape[1:]) as writer:
        for start in range(0, len(values), ROWS_AT_ONCE):
            block = values[start : start + ROWS_AT_ONCE].astype(np.float64)
            writer.append(np.nan_to_num((block - mean) / deviation, nan=0.0))
    source.unlink()


def _scales(count: Array, total: Array, squares: Array) -> tuple[Array, Array]:
    """Return mean and deviation, which is 1 where all values are alike: there is nothing to divide by."""
    mean = total / np.maximum(count, 1)
    deviation = np.sqrt(np.maximum(squares / np.maximum(count, 1) - mean**2, 0))
    return mean, np.where(deviation > 1e-6, deviation, 1.0)
