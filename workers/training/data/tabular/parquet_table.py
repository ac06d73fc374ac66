"""Tables in Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from workers.training.data.problems import DataProblem
from workers.training.data.sources.files import Files
from workers.training.data.tabular.table_parts import ROWS_AT_ONCE, Batch


class ParquetTable:
    """All files have the columns of the first one, in any order. Numbers, truth and times are read as float64."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.names = list(self._open(files.paths[0]).schema_arrow.names)

    def count_rows(self) -> int:
        return sum(self._open(path).metadata.num_rows for path in self._files.paths)

    def batches(self) -> Iterator[Batch]:
        kinds: list[Any] = []
        for path in self._files.paths:
            name, first_row = self._files.name_of(path), 0
            opened = self._open(path)
            if missing := sorted(set(self.names) - set(opened.schema_arrow.names)):
                raise DataProblem(f"{name} has no column {missing[0]!r}, which the first file of the folder has")
            try:
                for record in opened.iter_batches(ROWS_AT_ONCE, columns=self.names):
                    columns = [
                        _plain(record.column(column), f"{name}, column {column!r}", column) for column in self.names
                    ]
                    kinds = kinds or [column.type for column in columns]
                    columns = [_alike(column, kind) for column, kind in zip(columns, kinds, strict=True)]
                    self._refuse_other_kinds(kinds, columns, name)
                    yield Batch(columns, path, first_row, record.num_rows)
                    first_row += record.num_rows
            except (pa.ArrowException, OSError) as error:
                raise DataProblem(f"{name} cannot be read after row {first_row}: {str(error)[:300]}") from None

    def _refuse_other_kinds(self, kinds: list[Any], columns: list[Any], name: str) -> None:
        for column, kind, known in zip(columns, kinds, self.names, strict=True):
            if column.type != kind:
                here, there = ("numbers", "text") if pa.types.is_floating(column.type) else ("text", "numbers")
                raise DataProblem(
                    f"{name}, column {known!r} holds {here}, and that of {self._files.name_of(self._files.paths[0])} "
                    f"holds {there}: write both alike"
                )

    def place(self, path: Path, row: int) -> str:
        return f"{self._files.name_of(path)}, row {row + 1}"

    def _open(self, path: Path) -> Any:
        try:
            return pq.ParquetFile(path)
        except (pa.ArrowException, OSError) as error:
            raise DataProblem(
                f"{self._files.name_of(path)} is not a whole Parquet file ({str(error)[:200]}): write it again"
            ) from None


def _plain(column: Any, place: str, name: str) -> Any:
    """Return a column as text or as float64."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_boolean(kind):
        return pc.cast(column, pa.string())
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return pc.cast(column, pa.float64(), safe=False)
    if pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
        return pc.cast(pc.cast(column, pa.int64()), pa.float64(), safe=False)
    if pa.types.is_date32(kind):
        return pc.cast(pc.cast(column, pa.int32()), pa.float64())
    if pa.types.is_null(kind):
        return pc.cast(column, pa.float64())
    raise DataProblem(f"{place} is of the type {kind}: columns hold numbers or text; leave {name!r} out or convert it")


def _alike(column: Any, kind: Any) -> Any:
    """Return the column as one of ``kind`` where nothing is in it: an empty one says nothing of its kind."""
    return pc.cast(column, kind) if column.null_count == len(column) else column
