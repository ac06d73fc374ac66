"""Opens tables, whatever kind of file holds them."""

from __future__ import annotations

from collections import Counter

from workers.training.data.problems import DataProblem
from workers.training.data.sources.files import Files
from workers.training.data.tabular.csv_table import CsvTable
from workers.training.data.tabular.npz_table import NpzTable
from workers.training.data.tabular.parquet_table import ParquetTable
from workers.training.data.tabular.table_parts import Table

SOME = 30
NPZ_TARGET = "y"


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
    if source == "parquet":
        return ParquetTable(files)
    return NpzTable(files, target)
