"""What was logged and not yet written, as columns: 24 bytes a point, turned into frames without touching each point."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from trainyard.records import Payload

FRAME_BYTES = 60_000  # frames stay under 64 KB with their header
SLICE_ROWS = 2_000  # 48 KB of one series
MAX_NAME_CHARS = 500
MAX_LABELS = 50

Labels = tuple[tuple[str, str], ...]
Refuse = Callable[[str, str], None]  # told the name of the metric and why


class Rows:
    """Calls of ``log`` with the same names and labels: a step and a time for each, and the values row by row."""

    __slots__ = ("steps", "times", "values")

    def __init__(self) -> None:
        self.steps = array("q")
        self.times = array("d")
        self.values = array("d")


Groups = dict[tuple[tuple[str, ...], Labels], Rows]


def number(value: object) -> float:
    """Return ``value`` as a float: numbers, and scalars of numpy, torch and the like by their ``item``.

    Raises TypeError for text and None, and whatever the value's own conversion raises.
    """
    item = getattr(value, "item", None)
    plain = item() if callable(item) else value
    if plain is None or isinstance(plain, str | bytes | bytearray):
        raise TypeError(f"{plain!r:.60} is not a number")
    return float(plain)  # type: ignore[arg-type]  # what has no __float__ raises TypeError here


def clean_row(values: Mapping[str, Any], refuse: Refuse) -> tuple[tuple[str, ...], array[float]]:
    """Return the names and numbers that ``values`` holds, and tell ``refuse`` about everything else."""
    names: list[str] = []
    row = array("d")
    try:
        items = list(values.items())
    except Exception as error:  # not a mapping, or one that changes meanwhile
        refuse("log", f"takes a dictionary of numbers ({error})")
        return (), row
    for name, value in items:
        try:
            row.append(number(value))
        except Exception as error:  # a foreign __float__ may raise anything, and training must go on
            refuse(str(name), f"is not a number: {error}")
        else:
            names.append(name)
    return tuple(names), row


def clean_labels(labels: Mapping[str, str], refuse: Refuse) -> Labels:
    """Return ``labels`` as sorted texts; what is no dictionary of a few short texts is told to ``refuse``."""
    try:
        texts = sorted((_text(name), _text(value)) for name, value in labels.items())
    except Exception as error:  # not a mapping, or a __str__ that raises; the points matter more
        refuse("labels", f"is not a dictionary of texts: {error}")
        return ()
    if len(texts) > MAX_LABELS:
        refuse("labels", f"has {len(texts)} entries, {MAX_LABELS} at most are kept")
    return tuple(texts[:MAX_LABELS])


def whole_step(step: object) -> int | None:
    """Return ``step`` as a 64-bit integer, or None where it is none."""
    try:
        real = number(step)
        whole = int(step) if isinstance(step, int) else int(real)
    except Exception:  # anything may come; the caller says so
        return None
    is_whole = math.isfinite(real) and real == whole and -(2**63) <= whole < 2**63
    return whole if is_whole else None


def payloads(groups: Groups, refuse: Refuse) -> Iterator[tuple[Payload, int]]:
    """Yield the groups as payloads of ``points`` frames under FRAME_BYTES, each with its number of points."""
    series: list[list[Any]] = []
    size = points = 0
    for entry in _entries(groups, refuse):
        entry_size = sum(map(len, entry[2:])) + _text_bytes(entry) + 32
        if series and size + entry_size > FRAME_BYTES:
            yield {"t": "points", "s": series}, points
            series, size, points = [], 0, 0
        series.append(entry)
        size += entry_size
        points += len(entry[2]) // 8
    if series:
        yield {"t": "points", "s": series}, points


def _entries(groups: Groups, refuse: Refuse) -> Iterator[list[Any]]:
    """Yield ``[name, labels, steps, times, values]``, in slices that fit into a frame."""
    for (names, labels), rows in groups.items():
        width = len(names)
        columns = {name: rows.values[index::width] for index, name in enumerate(names) if _is_name(name, refuse)}
        for start in range(0, len(rows.steps), SLICE_ROWS):
            part = slice(start, start + SLICE_ROWS)
            steps, times = rows.steps[part].tobytes(), rows.times[part].tobytes()
            for name, values in columns.items():
                yield [name, dict(labels), steps, times, values[part].tobytes()]


def _is_name(name: object, refuse: Refuse) -> bool:
    if not isinstance(name, str) or not name or len(name) > MAX_NAME_CHARS or _text(name) != name:
        refuse(_text(name), f"is no name of a metric: text of 1 to {MAX_NAME_CHARS} characters is")
        return False
    return True


def _text(value: object) -> str:
    return str(value)[:MAX_NAME_CHARS].encode("utf-8", "replace").decode()


def _text_bytes(entry: list[Any]) -> int:
    texts = [entry[0], *entry[1].keys(), *entry[1].values()]
    return sum(len(text.encode()) + 6 for text in texts)
