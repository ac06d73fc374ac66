"""What a record of kind ``media`` may say. Whatever else it says raises Poison; unknown keys are ignored.

Nothing is decoded here but what is kept as numbers: of an image the first bytes are looked at, and no pixel.
"""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np

from runs.ingest.validation.checks import MAX_STEP, Poison, make_head, storable, time_of
from runs.media.store import HISTOGRAM, IMAGE, KINDS, TABLE, TEXT, Item
from trainyard.formats.binning import MAX_COUNT
from trainyard.formats.media import MAX_BINS, MAX_CAPTION, MAX_COLUMN, MAX_COLUMNS, MAX_ROWS, TEXT_FORMATS
from trainyard.formats.pictures import FORMATS, MAX_PIXELS, MAX_SIDE, format_of, size_of

MAX_EDGE = 1e300  # so that the difference of two is a number

Meta = dict[str, Any]


def item(payload: dict[str, Any]) -> Item:
    """Return what was logged. Raises Poison."""
    head = make_head((payload.get("name"),), payload.get("labels", {}))
    step, meta, data = payload.get("step"), payload.get("meta", {}), payload.get("data")
    if type(step) is not int or not -MAX_STEP - 1 <= step <= MAX_STEP:
        raise Poison("a step is a whole number of 64 bits")
    kind = payload.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise Poison(f"media are {', '.join(KINDS)}")
    if not isinstance(meta, dict) or not isinstance(data, bytes):
        raise Poison(f"a {kind} has a map meta and bytes data")
    meta, data = _CHECKS[kind](meta, data)
    return Item(head.names[0], head.labels, head.labels_key, kind, step, time_of(payload.get("at")), meta, data)


def _histogram(meta: Meta, data: bytes) -> tuple[Meta, bytes]:
    bins = meta.get("bins")
    if type(bins) is not int or not 0 < bins <= MAX_BINS:
        raise Poison(f"a histogram has 1 to {MAX_BINS:,} bins")
    if len(data) != 8 * (2 * bins + 1):
        raise Poison(f"a histogram of {bins} bins has {2 * bins + 1} numbers, this one has {len(data) / 8:g}")
    numbers = np.frombuffer(data, "<f8")
    edges, counts = numbers[: bins + 1], numbers[bins + 1 :]
    if not (np.abs(edges) <= MAX_EDGE).all() or not (np.diff(edges) > 0).all():
        raise Poison("the edges of a histogram are finite numbers that grow")
    if not ((counts >= 0) & (counts <= MAX_COUNT)).all():
        raise Poison(f"the counts of a histogram are numbers from 0 to {MAX_COUNT:,}")
    known: Meta = {"bins": bins}
    for name in ("count", "num_not_finite"):
        if (value := _count(meta, name)) is not None:
            known[name] = value
    return known, data


def _image(meta: Meta, data: bytes) -> tuple[Meta, bytes]:
    found = format_of(data)
    if not found:
        raise Poison(f"an image is {', '.join(FORMATS)}; these bytes are none of them")
    size = size_of(data)
    if size is None:
        raise Poison(f"the head of this {found} says no width and height")
    if max(size) > MAX_SIDE or size[0] * size[1] > MAX_PIXELS:
        raise Poison(f"an image of {size[0]} x {size[1]} pixels is too large to be shown")
    # What the file itself says goes before what was said of it.
    return {"caption": _text(meta, "caption", MAX_CAPTION), "width": size[0], "height": size[1], "format": found}, data


def _plain(meta: Meta, data: bytes) -> tuple[Meta, bytes]:
    form = meta.get("format", "plain")
    if form not in TEXT_FORMATS:
        raise Poison(f"a text's format is {' or '.join(TEXT_FORMATS)}")
    try:
        text = storable(data.decode())
    except UnicodeDecodeError as error:
        raise Poison("a text is UTF-8") from error
    return {"chars": len(text), "format": form}, text.encode()


def _table(meta: Meta, data: bytes) -> tuple[Meta, bytes]:
    columns = meta.get("columns")
    if not isinstance(columns, tuple) or not len(columns) <= MAX_COLUMNS:
        raise Poison(f"a table has a list of at most {MAX_COLUMNS} columns")
    if not all(isinstance(name, str) and len(name) <= MAX_COLUMN for name in columns):
        raise Poison(f"a table's columns are texts of at most {MAX_COLUMN} characters")
    try:
        rows = msgpack.unpackb(data, max_array_len=MAX_ROWS, max_map_len=0, max_ext_len=0)
    except Exception as error:  # msgpack raises a dozen kinds; each means the same: these bytes are no table
        raise Poison(f"a table's rows are no msgpack list of at most {MAX_ROWS:,}") from error
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == len(columns) for row in rows):
        raise Poison(f"a table's rows are lists of {len(columns)} cells, one for each column")
    if not all(cell is None or isinstance(cell, str | int | float) for row in rows for cell in row):
        raise Poison("a table's cells are texts, numbers, true, false or nothing")
    known: Meta = {"columns": [storable(name) for name in columns], "rows": len(rows)}
    for name in ("num_rows", "num_columns"):  # of the whole, where it was cut
        if (value := _count(meta, name)) is not None:
            known[name] = value
    return known, data


def _count(meta: Meta, name: str) -> int | None:
    value = meta.get(name)
    if value is not None and (type(value) is not int or not 0 <= value <= MAX_COUNT):
        raise Poison(f"{name} is a whole number from 0 up")
    return value


def _text(meta: Meta, name: str, at_most: int) -> str:
    value = meta.get(name, "")
    if not isinstance(value, str):
        raise Poison(f"{name} is a text")
    return storable(value)[:at_most]


_CHECKS = {HISTOGRAM: _histogram, IMAGE: _image, TEXT: _plain, TABLE: _table}
assert set(_CHECKS) == set(KINDS)
