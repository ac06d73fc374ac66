"""Tables, whatever kind of file holds them: NPZ, Parquet and text."""

import csv
import gzip
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from workers.training.data.problems import DataProblem
from workers.training.data.sources.files import Files
from workers.training.data.storage.npz_arrays import Array, NpzArray, pick, read_npz, refuse_other_rows
from workers.training.data.tabular.columns import ROWS_AT_ONCE, Batch, Table

BLOCK_BYTES = 8 * 2**20
COUNTED_BYTES = 2**30
DELIMITERS = (",", ";", "\t")
SOME = 30
NPZ_TARGET = "y"
NOT_UTF8 = re.compile("[\udc80-\udcff]")  # how "surrogateescape" shows such bytes


def open_table(source: str, files: Files, target: str) -> Table:
    """Return the table of these files. Raises DataProblem where it has no column ``target``, or no other one."""
    table = open_columns(source, files, target)
    names = table.names
    if target not in names:
        some = ", ".join(names[:SOME]) + (", …" if len(names) > SOME else "")
        raise DataProblem(f"task.data.target is {target!r}, but the columns of {files.location} are {some}")
    if len(names) == 1:
        raise DataProblem(f"{files.location} has no column beside the target {target!r}, from which it could be told")
    return table


def open_columns(source: str, files: Files, target: str = NPZ_TARGET) -> Table:
    """Return the table of these files, whatever its columns are; of NPZ files one is called ``target``."""
    table = _open(source, files, target)
    name, times = Counter(table.names).most_common(1)[0]
    if times > 1:
        raise DataProblem(f"{files.location} has {times} columns named {name!r}: give each a name of its own")
    return table


def _open(source: str, files: Files, target: str) -> Table:
    if source == "csv":
        return CsvTable(files)
    return ParquetTable(files) if source == "parquet" else NpzTable(files, target)


class FileTable:
    """What tables of all kinds of files have in common."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def place(self, path: Path, row: int) -> str:
        return f"{self._files.name_of(path)}, row {row + 1}"


# Tables in NPZ files: ``x`` (rows, features) holds numbers, ``y`` or an array named as the target what is learnt.


class NpzTable(FileTable):
    """Its columns are x0, x1, … and the target. All files have as many columns as the first one."""

    def __init__(self, files: Files, target: str) -> None:
        super().__init__(files)
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
                yield Batch([*map(arrow_column, rows.T), arrow_column(answers)], inputs.path, first_row, len(rows))
                first_row += len(rows)

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


def arrow_column(values: Array) -> Any:
    """Return the values as Arrow's text or float64."""
    if values.dtype.kind == "U":
        return pa.array(values.tolist(), pa.string())
    return pa.array(np.ascontiguousarray(values, np.float64))


# Tables in Parquet files.


class ParquetTable(FileTable):
    """All files have the columns of the first one, in any order. Numbers, truth and times are read as float64."""

    def __init__(self, files: Files) -> None:
        super().__init__(files)
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
                    columns = [_plain(record.column(one), f"{name}, column {one!r}", one) for one in self.names]
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
                words = f"and that of {self._files.name_of(self._files.paths[0])} holds {there}: write both alike"
                raise DataProblem(f"{name}, column {known!r} holds {here}, {words}")

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


# Tables in text: a header, then a row on each line, with commas, semicolons or tabs between the cells.
#
# Cells are read as text, block by block: which columns hold numbers is decided by all of their rows, not by the first.


class CsvTable(FileTable):
    """All files have the columns of the first one, in any order."""

    def __init__(self, files: Files) -> None:
        super().__init__(files)
        self.names = self._header(files.paths[0])

    def batches(self) -> Iterator[Batch]:
        for path in self._files.paths:
            names = self._header(path)
            if sorted(names) != sorted(self.names):
                raise DataProblem(
                    f"{self._files.name_of(path)} has the columns {', '.join(names[:30])}, and "
                    f"{self._files.name_of(self._files.paths[0])} has {', '.join(self.names[:30])}: files of one "
                    "folder make one table"
                )
            yield from self._read(path, names)

    def count_rows(self) -> int | None:
        return None if self._files.size_bytes > COUNTED_BYTES else sum(batch.num_rows for batch in self.batches())

    def place(self, path: Path, row: int) -> str:
        with suppress(csv.Error):
            for number, (line, _) in enumerate(_records(path)):
                if number == row + 1:  # the header is the first
                    return f"{self._files.name_of(path)}, line {line}"
        return super().place(path, row)

    def _header(self, path: Path) -> list[str]:
        name = self._files.name_of(path)
        try:
            _, names = next(_records(path), (0, []))
        except (csv.Error, OSError, EOFError) as error:
            raise DataProblem(f"{name} is no table in text: {error}") from None
        if not names or any("\0" in cell for cell in names):
            raise DataProblem(f"{name} is empty or no text: its first line names the columns")
        names = [cell.strip().encode(errors="surrogateescape").decode(errors="replace") for cell in names]
        if all(_is_number(cell) for cell in names):
            raise DataProblem(f"{name} begins with numbers ({', '.join(names[:5])}): its first line names the columns")
        return names

    def _read(self, path: Path, names: list[str]) -> Iterator[Batch]:
        order = [names.index(name) for name in self.names]
        first_row = 0
        try:
            with pa.input_stream(str(path), compression="detect") as file, self._opened(file, path, names) as reader:
                for record in reader:
                    yield Batch([record.column(index) for index in order], path, first_row, record.num_rows)
                    first_row += record.num_rows
        except (pa.ArrowInvalid, OSError, EOFError) as error:
            if "Could not skip initial" in str(error):  # the header ends with the file
                return
            raise self._explained(error, path, len(names)) from None

    def _opened(self, stream: Any, path: Path, names: list[str]) -> Any:
        ids = [str(index) for index in range(len(names))]  # whatever they are called, they are read in their order
        return pa.csv.open_csv(
            stream,
            read_options=pa.csv.ReadOptions(block_size=BLOCK_BYTES, column_names=ids, skip_rows=_header_lines(path)),
            parse_options=pa.csv.ParseOptions(delimiter=_delimiter(path), newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(ids, pa.string()), strings_can_be_null=False, check_utf8=True
            ),
        )

    def _explained(self, error: Exception, path: Path, num_columns: int) -> DataProblem:
        """Look for the line at fault, as a text editor counts: Arrow counts rows, and not always."""
        name = self._files.name_of(path)
        try:
            if "UTF8" in str(error):
                place = f"{name}, line {_first_bad_line(path)}"
                return DataProblem(f"{place} is not UTF-8: save the file as UTF-8, or convert it with iconv")
            for line, cells in _records(path):
                if len(cells) != num_columns:
                    return DataProblem(
                        f"{name}, line {line} has {len(cells)} cells and the first line {num_columns}: correct it, or "
                        "put cells that hold the separator between double quotes"
                    )
        except (csv.Error, EOFError, OSError) as reason:
            error = reason
        return DataProblem(f"{name} cannot be read as a table: {str(error)[:300]}")


def _records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows, the header too, with the line on which each begins; empty lines are none."""
    with _open_text(path) as file:
        reader = csv.reader(file, delimiter=_delimiter(path))
        line = 1
        for cells in reader:
            if cells:
                yield line, cells
            line = reader.line_num + 1


def _header_lines(path: Path) -> int:
    with _open_text(path) as file:
        reader = csv.reader(file, delimiter=_delimiter(path))
        next(cells for cells in reader if cells)
        return int(reader.line_num)


def _open_text(path: Path) -> TextIO:
    opener: Any = gzip.open if path.suffix == ".gz" else open
    file: TextIO = opener(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="")
    return file


def _delimiter(path: Path) -> str:
    """Return what stands most often in the first line."""
    with _open_text(path) as file:
        line = next((line for line in file if line.strip()), "")
    return max(DELIMITERS, key=line.count)


def _first_bad_line(path: Path) -> int:
    with _open_text(path) as file:
        return next((number for number, line in enumerate(file, 1) if NOT_UTF8.search(line)), 0)


def _is_number(cell: str) -> bool:
    with suppress(ValueError):
        float(cell)
        return True
    return False
