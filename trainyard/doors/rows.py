"""Rows of names and values as runs to import: files of CSV and of JSON lines, and what Trackio keeps in SQLite.

A row is one call of ``log``: numbers are points, texts are kept where they differ from the one before.
"""

import contextlib
import csv
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from trainyard.contract.base import JsonObject
from trainyard.contract.records import MAX_STEP, YEAR_3000, AnyRecord
from trainyard.doors.gathering import Gathering
from trainyard.doors.importing import ForeignRun, SourceFile, query_of
from trainyard.formats.media import Text
from trainyard.sdk.buffers import Refuse, flat, whole_step

TAKE_EVERY = 5_000  # rows
MS = 1e11  # a time beyond is in milliseconds
STEPS, TIMES = ("step", "_step", "global_step"), ("time", "timestamp", "_timestamp")


class Mapped(NamedTuple):
    """Which columns have steps, times and the name of the run; None: the usual names, or the place of the row."""

    step: str | None = None
    time: str | None = None
    run: str | None = None


class Row(NamedTuple):
    place: int  # behind it
    step: object
    at: object
    values: Mapping[str, Any]


Read = Callable[[float, Refuse], Iterable[Row]]  # up to a place; says what it leaves out


class RowsFile(SourceFile):
    def __init__(self, key: str, end: int, read: Read, at: float, config: JsonObject | None = None) -> None:
        self.key, self.end = key, end
        self._read, self._at, self._config = read, at, config or {}  # the time of a row that has none

    def records(self, gathering: Gathering, start: int, end: int) -> Iterator[AnyRecord]:
        texts: dict[str, str] = {}
        if self._config:
            gathering.describe(self._config)
        for number, row in enumerate(self._read(end, gathering.refuse)):
            into = gathering if row.place > start else Gathering()  # the server has those before
            given = as_number(row.step) if isinstance(row.step, str) else row.step
            step, at = whole_step(number if given is None else given), moment(row.at, self._at)
            if step is None or at is None:
                into.refuse("", "rows whose step is no whole number, or whose time is none")
                continue
            self.first_at, self.last_at = min(self.first_at, at), max(self.last_at, at)
            for name, value in flat(row.values).items():
                add(into, str(name), value, step, at, texts)
            if number % TAKE_EVERY == TAKE_EVERY - 1:
                yield from gathering.take()
        yield from gathering.take()


def add(gathering: Gathering, name: str, value: object, step: int, at: float, texts: dict[str, str]) -> None:
    if isinstance(value, str):
        value = as_number(value)
    if isinstance(value, str):
        if texts.get(name) != value and 0 <= step <= MAX_STEP:
            gathering.media(name, step, at, Text(value))
        texts[name] = value
    elif isinstance(value, int | float):
        with contextlib.suppress(OverflowError):
            gathering.point(name, step, at, float(value))
    elif value is not None:
        gathering.refuse(name, "is neither a number nor a text")


def as_number(text: str) -> float | str | None:
    """Return a text as the number that it is; None for none."""
    try:
        return float(text)
    except ValueError:
        return text if text.strip() else None


def moment(at: object, without: float) -> float | None:
    """Return Unix seconds of a number of them, of milliseconds, or of a time in words of ISO 8601."""
    number = as_number(at) if isinstance(at, str) else at
    try:
        if isinstance(number, str):
            when = datetime.fromisoformat(number)
            number = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
        found = without if number is None else float(number)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    found = found / 1000 if found > MS else found
    return found if 0 <= found <= YEAR_3000 else None


# Files of CSV and of JSON lines.


class Lines:
    """Whole lines of a file up to a place, and how far they were read: a cell may have several."""

    def __init__(self, file: Iterable[bytes], end: float) -> None:
        self.place = 0
        self._file, self._end = file, end

    def __iter__(self) -> Iterator[str]:
        for line in self._file:
            if self.place + len(line) > self._end or not line.endswith(b"\n"):
                return
            self.place += len(line)
            yield line.decode("utf-8-sig", "replace")


def file_runs(path: Path, mapped: Mapped, *, is_csv: bool) -> list[ForeignRun]:
    """Return the run of a file, or those that its column of runs names. Raises OSError."""
    with path.open("rb") as file:
        lines = Lines(file, math.inf)
        names = [str(row.get(mapped.run or "", "")) for row in _rows(lines, lambda *_: None, is_csv=is_csv)]
        file.seek(0)
        head = hashlib.sha256(next(file, b"")).hexdigest()
    found = []
    for name in dict.fromkeys(names if mapped.run else names and [path.stem]):
        read = partial(_rows_of_run, path, mapped, name, is_csv)
        files: list[SourceFile] = [RowsFile(path.name, lines.place, read, path.stat().st_mtime)]
        # Not by the folder: it is the same run where the file was moved or copied.
        found.append(ForeignRun(f"rows {path.name} {head} {mapped.run} {name}", name, str(path), files))
    return found


def _rows_of_run(path: Path, mapped: Mapped, own: str, is_csv: bool, end: float, refuse: Refuse) -> Iterator[Row]:
    with path.open("rb") as file:
        lines = Lines(file, end)
        for values in _rows(lines, refuse, is_csv=is_csv):
            if mapped.run is None or str(values.pop(mapped.run, "")) == own:
                step, at = _take(values, mapped.step, STEPS), _take(values, mapped.time, TIMES)
                yield Row(lines.place, step, at, values)
        if file.read(1):
            refuse(path.name, "behind what was read, lines may still be being written")


def _rows(lines: Iterable[str], refuse: Refuse, *, is_csv: bool) -> Iterator[dict[str, Any]]:
    if is_csv:
        for row in csv.DictReader(lines, restkey=""):
            row.pop("", None)  # an index, or cells without a name
            yield row
        return
    for line in lines:
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        if isinstance(found, dict):
            yield flat(found)
        elif line.strip():
            refuse("", "lines that are no JSON object")


def _take(values: dict[str, Any], word: str | None, usual: tuple[str, ...]) -> object:
    found = word or next((one for one in usual if one in values), None)
    return values.pop(found, None) if found else None


# Trackio's folder.


def trackio_runs(root: Path) -> list[ForeignRun]:
    """Return the runs of the projects ``*.db`` of a folder of Trackio's. Raises OSError."""
    return [run for path in sorted(root.glob("*.db")) for run in _of_project(path)]


def _of_project(path: Path) -> Iterator[ForeignRun]:
    configs = dict(query_of(path, "SELECT run_id, config FROM configs"))
    runs = "SELECT run_id, MAX(run_name), MAX(id) FROM metrics GROUP BY run_id ORDER BY MIN(id)"
    for own, name, end in query_of(path, runs):
        config = {key: value for key, value in json.loads(configs.get(own) or "{}").items() if not key.startswith("_")}
        files: list[SourceFile] = [RowsFile("metrics", end, partial(_calls, path, own), 0.0, config)]
        yield ForeignRun(f"trackio {path.stem} {own}", name, str(path), files)


def _calls(path: Path, own: str, end: float, refuse: Refuse) -> Iterator[Row]:
    sql = "SELECT id, step, timestamp, metrics FROM metrics WHERE run_id = ? AND id <= ? ORDER BY id"
    for place, step, at, text in query_of(path, sql, own, end):
        values = json.loads(text)
        for name, value in list(values.items()):
            if isinstance(value, dict) and "_type" in value:
                refuse(name, f"{values.pop(name)['_type']} has no counterpart")
        yield Row(place, step, at, values)
