"""Logged rows that are not yet written: handed over as they lie, without touching each point or series."""

from __future__ import annotations

import itertools
import math
import struct
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from trainyard.contract.records import MAX_LABELS, MAX_NAME_CHARS, Group, Points
from trainyard.formats.media import is_media
from trainyard.sdk.warning import logger

FRAME_BYTES = 255 * 1024  # frames stay under 256 KiB with their header
NAMES_BYTES = 128 * 1024  # of one call's names and values in a frame; wider calls are split by columns

Labels = tuple[tuple[str, str], ...]
Refuse = Callable[[str, str], None]  # called with the metric's name and the reason


class Rows:
    """Calls of ``log`` with the same names and labels: a step and a time for each, and the values row by row."""

    __slots__ = ("steps", "times", "values")

    def __init__(self) -> None:
        self.steps = array("q")
        self.times = array("d")
        self.values = array("d")

    def add(self, step: int, time: float, row: Iterable[float]) -> None:
        self.steps.append(step)
        self.times.append(time)
        self.values.extend(row)


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


def clean_row(
    values: Mapping[str, Any], refuse: Refuse, *, wait: bool = False
) -> tuple[tuple[str, ...], array[float], Arriving, list[tuple[str, Any]]]:
    """Return the names and numbers that ``values`` holds, and call ``refuse`` for everything else.

    Unless it shall ``wait``, numbers on a GPU have NaN as their place, and are what arrives later. What is neither but
    media (see ``trainyard.formats.media``) comes last, with its names.
    """
    names: list[str] = []
    album: list[tuple[str, Any]] = []
    arriving = Arriving()
    row = array("d")
    try:
        items = list(values.items())
    except Exception as error:  # not a mapping, or one that changes meanwhile
        refuse("log", f"takes a dictionary of numbers ({error})")
        return (), row, arriving, album
    for name, value in items:
        try:
            if is_media(value):
                album.append((name, value))
                continue
            if not wait and is_remote(value):
                arriving.take(len(row), value)
                row.append(math.nan)
            else:
                row.append(number(value))
        except Exception as error:  # a foreign __float__ may raise anything, and training must go on
            refuse(str(name), f"is not a number: {error}")
        else:
            names.append(name)
    if arriving:
        arriving.mark()
    return tuple(names), row, arriving, album


def flat(values: Any, above: str = "", depth: int = 0) -> Any:
    """Return the values with those of dictionaries inside named by their whole path, ``outer/inner``. What is no
    mapping, or is nested more than 20 deep, stays as it is."""
    if not isinstance(values, Mapping) or depth > 20:
        return values
    made: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            made.update(flat(value, f"{above}{name}/", depth + 1))
        else:
            made[f"{above}{name}" if above else name] = value
    return made


class Late:
    """One call of ``log`` whose numbers are not all there yet."""

    __slots__ = ("arriving", "labels", "names", "row", "step", "time")

    def __init__(
        self, names: tuple[str, ...], labels: Labels, step: int, time: float, row: array[float], arriving: Arriving
    ) -> None:
        self.names, self.labels, self.step, self.time = names, labels, step, time
        self.row, self.arriving = row, arriving

    def has_arrived(self) -> bool:
        try:
            return self.arriving.is_there()
        except Exception as error:  # a failed GPU raises many kinds; reading the numbers will say what is wrong
            logger.debug("trainyard: a GPU does not answer: %s", error)
            return True

    def complete(self, refuse: Refuse) -> None:
        """Put in what has arrived; what is not a number goes to ``refuse`` and is left out."""
        bad = set()
        for place, copy in self.arriving.copies:
            try:
                self.row[place] = number(copy)
            except Exception as error:  # a complex number, or a GPU that failed meanwhile
                refuse(self.names[place], f"is not a number: {error}")
                bad.add(place)
        if bad:
            kept = [place for place in range(len(self.row)) if place not in bad]
            self.names = tuple(self.names[place] for place in kept)
            self.row = array("d", [self.row[place] for place in kept])


@lru_cache(maxsize=1000)
def packer(width: int) -> Callable[..., bytes]:
    """Return what packs so many numbers as float64. It raises where one of them is none, or too large."""
    return struct.Struct(f"={width}d").pack


def learn_numpy(plain: set[type]) -> None:
    """Add NumPy's real numbers to the types that ``array`` takes as they are; NumPy is never imported for that."""
    numpy = sys.modules.get("numpy")
    double = getattr(numpy, "float64", None)
    if double is None or double in plain:
        return
    integers = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
    plain.update(getattr(numpy, name, double) for name in ("float64", "float32", "float16", "bool_", *integers))


def clean_labels(labels: Mapping[str, str], refuse: Refuse) -> Labels:
    """Return ``labels`` as sorted texts; anything but a dictionary of a few short texts goes to ``refuse``."""
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
    except Exception:  # anything may come; the caller reports it
        return None
    is_whole = math.isfinite(real) and real == whole and -(2**63) <= whole < 2**63
    return whole if is_whole else None


def records_of(groups: Groups, refuse: Refuse) -> Iterator[tuple[Points, int]]:
    """Yield the groups as records whose frames stay under FRAME_BYTES, each with its number of points."""
    found: list[Group] = []
    size = points = 0
    for group, num_bytes, num_points in _slices(groups, refuse):
        if found and size + num_bytes > FRAME_BYTES:
            yield Points(found), points
            found, size, points = [], 0, 0
        found.append(group)
        size += num_bytes
        points += num_points
    if found:
        yield Points(found), points


def _slices(groups: Groups, refuse: Refuse) -> Iterator[tuple[Group, int, int]]:
    """Yield groups that fit into a frame, with their bytes and points."""
    for (names, labels), rows in groups.items():
        width = len(names)
        label_bytes = sum(map(_text_bytes, itertools.chain(*labels)))
        for columns in _columns(names, refuse):
            part_names = tuple(names[column] for column in columns)
            text_bytes = label_bytes + sum(map(_text_bytes, part_names)) + 32
            part_width = len(part_names)
            values = rows.values if part_width == width else _cut(rows.values, width, columns)
            row_bytes = 16 + 8 * part_width
            height = max(1, (FRAME_BYTES - text_bytes) // row_bytes)
            for start in range(0, len(rows.steps), height):
                steps = rows.steps[start : start + height]
                group = Group(
                    dict(labels),
                    part_names,
                    steps.tobytes(),
                    rows.times[start : start + height].tobytes(),
                    values[start * part_width : (start + height) * part_width].tobytes(),
                )
                yield group, text_bytes + row_bytes * len(steps), part_width * len(steps)


def _columns(names: tuple[str, ...], refuse: Refuse) -> Iterator[list[int]]:
    """Yield the numbers of the columns that have proper names: all at once, where a frame can hold so many names."""
    columns: list[int] = []
    size = 0
    for column, name in enumerate(names):
        if not is_name(name, refuse):
            continue
        name_bytes = _text_bytes(name) + 8
        if columns and size + name_bytes > NAMES_BYTES:
            yield columns
            columns, size = [], 0
        columns.append(column)
        size += name_bytes
    if columns:
        yield columns


def _cut(values: array[float], width: int, columns: list[int]) -> array[float]:
    """Return these columns of the rows, again row by row."""
    kept = array("d", bytes(8 * len(values) // width * len(columns)))
    for place, column in enumerate(columns):
        kept[place :: len(columns)] = values[column::width]
    return kept


def is_name(name: object, refuse: Refuse) -> bool:
    if not isinstance(name, str) or not name or len(name) > MAX_NAME_CHARS or _text(name) != name:
        refuse(_text(name), f"is no name of a metric: text of 1 to {MAX_NAME_CHARS} characters is")
        return False
    return True


def _text(value: object) -> str:
    return str(value)[:MAX_NAME_CHARS].encode("utf-8", "replace").decode()


def _text_bytes(text: str) -> int:
    return len(text.encode()) + 5


# Scalars that lie on a GPU: copied without making the training wait for the GPU, and read once they have arrived.
#
# PyTorch is never imported here: where nobody else has, there are no such scalars.


class Arriving:
    """The numbers of one call of ``log`` that are on their way from a device."""

    __slots__ = ("_events", "copies")

    def __init__(self) -> None:
        self.copies: list[tuple[int, Any]] = []  # place in the row, and the copy in pinned memory
        self._events: dict[Any, Any] = {}  # for each device what happens behind its last copy

    def __bool__(self) -> bool:
        return bool(self.copies)

    def take(self, place: int, scalar: Any) -> None:
        """Start to copy ``scalar``, which ``is_remote``. Raises what PyTorch raises."""
        self.copies.append((place, scalar.detach().to("cpu", non_blocking=True)))
        self._events[scalar.device] = None

    def mark(self) -> None:
        """Remember the point in the devices' queues behind all copies."""
        try:
            self._events = {device: event_on(device) for device in self._events}
        except Exception:  # a failed GPU raises many kinds; then reading the copies waits, and says what is wrong
            self._events = {}

    def is_there(self) -> bool:
        """Return whether every copy has arrived; asks, and does not wait. Raises what PyTorch raises."""
        return all(event.query() for event in self._events.values())


def is_remote(value: object) -> bool:
    """Return whether ``value`` is a tensor of one element that lies on a GPU."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    if tensor is None or not isinstance(value, tensor):
        return False
    is_simple = type(value) is tensor or type(value).__name__ == "Parameter"  # others may mean more than their memory
    return bool(is_simple and value.is_cuda and value.numel() == 1)


def event_on(device: Any) -> Any:
    """Return an event behind all that was put into the device's current queue."""
    cuda = sys.modules["torch"].cuda
    event = cuda.Event()
    event.record(cuda.current_stream(device))
    return event
