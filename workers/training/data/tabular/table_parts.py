"""Interface of readers of tables: a batch of rows, and the questions to a table."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

ROWS_AT_ONCE = 65_536


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
