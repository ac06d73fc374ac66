"""Tables in NPZ files: ``x`` (rows, features) holds numbers, ``y`` or an array named as the target what is learnt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from workers.training.data.problems import DataProblem
from workers.training.data.sources.files import Files
from workers.training.data.storage.arrays import Array
from workers.training.data.storage.npz_arrays import NpzArray, pick, read_npz, refuse_other_rows
from workers.training.data.tabular.table_parts import ROWS_AT_ONCE, Batch


class NpzTable:
    """Its columns are x0, x1, … and the target. All files have as many columns as the first one."""

    def __init__(self, files: Files, target: str) -> None:
        self._files = files
        self._arrays = [self._open(path, target) for path in files.paths]
        widths = {inputs.shape[1]: inputs for inputs, _ in self._arrays}
        if len(widths) > 1:
            places = " and ".join(f"{inputs.place} has {width}" for width, inputs in list(widths.items())[:2])
            raise DataProblem(f"{places} columns: files of one folder make one table")
        self.names = [f"x{index}" for index in range(next(iter(widths)))] + [target]

    def count_rows(self) -> int:
        return sum(inputs.shape[0] for inputs, _ in self._arrays)

    def batches(self) -> Iterator[Batch]:
        for inputs, targets in self._arrays:
            at_once, first_row = max(1, min(ROWS_AT_ONCE, 2**22 // max(1, inputs.shape[1]))), 0
            for rows, answers in zip(inputs.blocks(at_once), targets.blocks(at_once), strict=True):
                columns = [_column(part) for part in rows.T]
                yield Batch([*columns, _column(answers)], inputs.path, first_row, len(rows))
                first_row += len(rows)

    def place(self, path: Path, row: int) -> str:
        return f"{self._files.name_of(path)}, row {row + 1}"

    def _open(self, path: Path, target: str) -> tuple[NpzArray, NpzArray]:
        name = self._files.name_of(path)
        arrays = read_npz(path, name)
        inputs, targets = pick(arrays, name, "x"), pick(arrays, name, target, "y")
        if len(inputs.shape) != 2 or inputs.dtype.kind not in "biuf":
            raise DataProblem(
                f"{inputs.place} is {inputs.dtype} of the shape {inputs.shape}: a table has numbers (rows, columns)"
            )
        if targets.dtype.kind not in "biufU":
            raise DataProblem(f"{targets.place} is {targets.dtype}: targets are numbers or text")
        refuse_other_rows(inputs, targets)
        return inputs, targets


def _column(values: Array) -> Any:
    """Return the values as Arrow's text or float64."""
    if values.dtype.kind == "U":
        return pa.array(values.tolist(), pa.string())
    return pa.array(np.ascontiguousarray(values, np.float64))
