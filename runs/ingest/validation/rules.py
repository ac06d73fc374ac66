"""What a record must fulfil beyond its type, and records as the store takes them. All raise BadRecord.

Of media nothing is decoded but what is kept as numbers: of an image the first bytes are read, and no pixel.
"""

from __future__ import annotations

import json
from collections import OrderedDict

import numpy as np

from runs.records.checkpoints.read import OFF, CheckpointReport
from runs.records.media.store import Item
from runs.records.metrics.progress import ReportedFact
from runs.records.points.store import Lines
from runs.records.points.tables import Rows, SeriesGroup
from trainyard.contract import records
from trainyard.contract.base import JsonObject, decode
from trainyard.contract.records import (
    MAX_BIN_COUNT,
    META,
    BadRecord,
    Caption,
    HistogramMeta,
    ReadMeta,
    TableMeta,
    TextStyle,
    decode_part,
)
from trainyard.formats.media import MAX_CAPTION
from trainyard.formats.pictures import FORMATS, MAX_PIXELS, MAX_SIDE, format_of, size_of

KEPT_CHARACTERS = 4_000_000  # of names that are remembered, a hundred for each name on top
MAX_FACTS_BYTES = 60 * 1024
MAX_WHY = 1_000  # characters; what is beyond is cut off
MAX_EDGE = 1e300  # so that the difference of two is a number

Content = tuple[JsonObject, bytes]  # of a medium, as it is stored: meta and data


def storable(text: str) -> str:
    """PostgreSQL keeps no NUL in text; the replacement character shows that something was there."""
    return text.replace("\x00", "\ufffd")


class Heads:
    """The same names and labels come with every frame of a producer: they are checked once, and one object since."""

    def __init__(self) -> None:
        self._kept: OrderedDict[object, SeriesGroup] = OrderedDict()
        self._weight = 0

    def head(self, names: tuple[str, ...], labels: dict[str, str]) -> SeriesGroup:
        """Return the head with these names and labels."""
        key = names, tuple(labels.items())
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = make_head(names, labels)
            self._weight += _weight(found)
            while self._weight > KEPT_CHARACTERS:
                self._weight -= _weight(self._kept.popitem(last=False)[1])
        return found


def _weight(head: SeriesGroup) -> int:
    return sum(100 + len(name) for name in head.names) + 1000


_heads = Heads()


def make_head(names: tuple[str, ...], labels: dict[str, str]) -> SeriesGroup:
    clean = tuple(storable(name) for name in names)
    if len(set(clean)) < len(clean):
        twice = next(name for place, name in enumerate(clean) if name in clean[:place])
        raise BadRecord(f"names: {twice[:60]!r} stands twice in one group")
    return SeriesGroup(clean, {storable(key): storable(value) for key, value in labels.items()})


def rows(group: records.Group) -> Rows:
    """Return the points of a group; whether their times are finite is checked for many groups at once."""
    head = _heads.head(group.names, group.labels)
    steps, times, values = group.steps, group.times, group.values
    if len(steps) % 8 or len(times) != len(steps) or len(values) != len(steps) * len(head.names):
        found = f"{len(steps) / 8:g} steps, {len(times) / 8:g} times and {len(values) / 8:g} values"
        raise BadRecord(f"a group of {len(head.names)} names: its columns have {found}")
    return Rows(head, steps, times, values)


def lines(record: records.Logs) -> Lines:
    return Lines(record.rank, record.stream, record.lines)


def checkpoint(record: records.Checkpoint) -> CheckpointReport:
    if record.step is None and record.state != OFF:
        raise BadRecord("step: a checkpoint has one (it is None)")
    return CheckpointReport(
        record.state,
        step=record.step,
        fence=record.fence,
        run=record.run,
        at=record.at,
        why=storable(record.why)[:MAX_WHY],
        is_missing=record.missing,
        memory=storable(record.memory),
        facts={
            "bytes": record.bytes,
            "num_files": record.num_files,
            "world_size": record.world_size,
            "degrees": {storable(axis): number for axis, number in record.degrees.items()},
            "took_s": record.took_s,
            "stall_s": record.stall_s,
            "key_version": record.key_version,
        },
    )


def facts(record: records.Facts) -> ReportedFact:
    try:
        text = json.dumps(record.data, allow_nan=False)
        data = decode(text, JsonObject)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRecord(f"data: facts are what JSON can hold: {error!s:.200}") from None
    if len(text) > MAX_FACTS_BYTES:
        raise BadRecord(f"data: facts have at most {MAX_FACTS_BYTES} bytes, not {len(text)}")
    return ReportedFact(record.name, data, record.at)


def media(record: records.Media) -> Item:
    head = make_head((record.name,), record.labels)
    content = _content(decode_part(record.meta, META[record.kind], "meta"), record.data)
    return Item(head.names[0], head.labels, head.labels_key, record.kind, record.step, record.at, *content)


def _content(meta: ReadMeta, data: bytes) -> Content:
    match meta:
        case HistogramMeta():
            return _histogram(meta, data)
        case Caption():
            return _image(meta, data)
        case TextStyle():
            return _text(meta, data)
        case TableMeta():
            return _table(meta, data)


def _histogram(meta: HistogramMeta, data: bytes) -> Content:
    if len(data) != 8 * (2 * meta.bins + 1):
        raise BadRecord(f"a histogram of {meta.bins} bins has {2 * meta.bins + 1} numbers, not {len(data) / 8:g}")
    numbers = np.frombuffer(data, "<f8")
    edges, counts = numbers[: meta.bins + 1], numbers[meta.bins + 1 :]
    if not (np.abs(edges) <= MAX_EDGE).all() or not (np.diff(edges) > 0).all():
        raise BadRecord("the edges of a histogram are finite numbers that grow")
    if not ((counts >= 0) & (counts <= MAX_BIN_COUNT)).all():
        raise BadRecord(f"the counts of a histogram are numbers from 0 to {MAX_BIN_COUNT:,}")
    return _known(bins=meta.bins, count=meta.count, num_not_finite=meta.num_not_finite), data


def _image(meta: Caption, data: bytes) -> Content:
    found = format_of(data)
    if not found:
        raise BadRecord(f"data: an image is {', '.join(FORMATS)}; these bytes are none of them")
    size = size_of(data)
    if size is None:
        raise BadRecord(f"data: the head of this {found} has no width and height")
    if max(size) > MAX_SIDE or size[0] * size[1] > MAX_PIXELS:
        raise BadRecord(f"data: an image of {size[0]} x {size[1]} pixels is too large to be shown")
    caption = storable(meta.caption)[:MAX_CAPTION]
    # The file itself goes before what the record says of it.
    return {"caption": caption, "width": size[0], "height": size[1], "format": found}, data


def _text(meta: TextStyle, data: bytes) -> Content:
    try:
        text = storable(data.decode())
    except UnicodeDecodeError as error:
        raise BadRecord(f"data: a text is UTF-8: {error}") from error
    return {"chars": len(text), "format": meta.format}, text.encode()


def _table(meta: TableMeta, data: bytes) -> Content:
    found = decode_part(data, records.Rows, "data")
    width = len(meta.columns)
    uneven = next((len(row) for row in found if len(row) != width), None)
    if uneven is not None:
        raise BadRecord(f"data: a table of {width} columns has a row of {uneven} cells")
    columns = [storable(name) for name in meta.columns]
    return _known(columns=columns, rows=len(found), num_rows=meta.num_rows, num_columns=meta.num_columns), data


def _known(**fields: int | list[str] | None) -> JsonObject:
    return {name: value for name, value in fields.items() if value is not None}
