"""Tables in text: a header, then a row on each line, with commas, semicolons or tabs between the cells.

Cells are read as text, block by block: which columns hold numbers is decided by all of their rows, not by the first.
"""

import csv
import gzip
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.csv

from workers.training.data.problems import DataProblem
from workers.training.data.sources.files import Files
from workers.training.data.tabular.table_parts import Batch

BLOCK_BYTES = 8 * 2**20
COUNTED_BYTES = 2**30
DELIMITERS = (",", ";", "\t")


class CsvTable:
    """All files have the columns of the first one, in any order."""

    def __init__(self, files: Files) -> None:
        self._files = files
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
        if self._files.size_bytes > COUNTED_BYTES:
            return None
        return sum(batch.num_rows for batch in self.batches())

    def place(self, path: Path, row: int) -> str:
        with suppress(csv.Error):
            for number, (line, _) in enumerate(_records(path)):
                if number == row + 1:  # the header is the first
                    return f"{self._files.name_of(path)}, line {line}"
        return f"{self._files.name_of(path)}, row {row + 1}"

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
            with (
                pa.input_stream(str(path), compression="detect") as stream,
                self._opened(stream, path, names) as reader,
            ):
                for record in reader:
                    columns = [record.column(index) for index in order]
                    yield Batch(columns, path, first_row, record.num_rows)
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
                line = _first_bad_line(path)
                return DataProblem(
                    f"{name}, line {line} is not UTF-8: save the file as UTF-8, or convert it with iconv"
                )
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
    opener: Any = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return 0


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
