"""Output of the commands: colour and tables on a terminal, plain columns in a pipe.

Names, logs and sentences come from others: control characters never reach the terminal.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trainyard.contract.statuses import Status
from trainyard.formats import figures
from trainyard.formats.names import DIRECTIONS

T = TypeVar("T")
Row = Callable[[T], Sequence[object]]  # the cells for one of what is listed
STATUS_STYLES: dict[str, str] = {
    Status.QUEUED: "bright_black", Status.SCHEDULED: "blue", Status.STARTING: "blue", Status.RUNNING: "green",
    Status.RECOVERING: "yellow", Status.RESIZING: "yellow", Status.PAUSED: "magenta", Status.STOPPING: "bright_black",
    Status.SUCCEEDED: "bold green", Status.FAILED: "bold red", Status.CANCELLED: "bright_black",
    Status.LOST: "bold yellow",
}  # fmt: skip
LAMP_STYLES = {"green": "green", "amber": "yellow", "red": "red", "grey": "bright_black"}
# Sequences that a terminal reads as one: colours and the cursor, titles and links.
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x9b[0-?]*[ -/]*[@-~]")
_SAFE = {code: None for code in (*range(32), *range(127, 160), *map(ord, DIRECTIONS)) if code != 9}


class Screen:
    """The two outputs. ``out`` carries the answer, ``err`` everything that a program should not read."""

    def __init__(self) -> None:
        self.out = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
        self.err = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)

    @property
    def is_terminal(self) -> bool:
        return self.out.is_terminal

    def line(self, text: str, style: str = "") -> None:
        self._write(self.out, text, style)

    def say(self, text: str, style: str = "") -> None:
        """Print what is not the answer: progress, remarks."""
        self._write(self.err, text, style)

    def complain(self, text: str) -> None:
        self._write(self.err, text, "red")

    def json(self, document: Any) -> None:
        print(json.dumps(document, indent=2 if self.is_terminal else None, ensure_ascii=not self.is_terminal))

    def facts(self, named: Mapping[str, str | None]) -> None:
        """Print what is not empty, each behind its name."""
        for name, text in named.items():
            if text:
                self.line(f"{name:9}  {text}")

    def listing(
        self, found: Sequence[T], titles: Sequence[str], row: Row[T], nothing: str = "", *, is_json: bool
    ) -> None:
        """Print what was found as a table or JSON, and the sentence, if any, where that is nothing."""
        if is_json:
            self.json({"items": found})
        elif found or not nothing:
            self.table(titles, map(row, found))
        else:
            self.say(nothing)

    def table(self, titles: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Print rows under their titles; a column called ``status`` gets its colours."""
        texts = [[safe("" if cell is None else str(cell)) for cell in row] for row in rows]
        if not self.is_terminal:
            widths = [max(map(len, column)) for column in zip(titles, *texts, strict=True)]
            for row in [list(titles), *texts]:
                padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
                print("  ".join(padded).rstrip())
            return
        table = Table(*titles, box=None, pad_edge=False, header_style="bright_black")
        for row in texts:
            cells = zip(titles, row, strict=True)
            table.add_row(*(Text(cell, STATUS_STYLES.get(cell, "") if of == "status" else "") for of, cell in cells))
        self.out.print(table, soft_wrap=False)

    def _write(self, console: Console, text: str, style: str) -> None:
        console.print(Text(safe(text), style))
        console.file.flush()


def safe(text: str) -> str:
    """Return ``text`` without colours, control characters (a newline becomes a space) and overrides of direction."""
    return _ESCAPES.sub("", text).replace("\r\n", " ").replace("\n", " ").translate(_SAFE)


def figure(value: object) -> str:
    """Return a number with four significant digits; what is not finite is text already."""
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def size(num_bytes: float | None) -> str:
    return "" if num_bytes is None else figures.size(num_bytes)


def ago(moment: str | None) -> str:
    """Return how long ago an ISO 8601 time was."""
    if not moment:
        return ""
    return f"{figures.duration(max(1, (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()))} ago"
