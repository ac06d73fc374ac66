"""The kinds of media: how each is checked on arrival, stored, and handed out. One row of KINDS describes a kind.

Nothing is decoded but what is kept as numbers: of an image or a sound the head is read, and no pixel and no sample.
"""

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, NotRequired, TypedDict

import numpy as np
from msgspec import Meta

from runs.records.metrics.bulk import storable
from runs.records.metrics.codec import Floats, word_of
from trainyard.contract import records
from trainyard.contract.base import JsonObject
from trainyard.contract.records import MAX_BIN_COUNT, BadRecord, Rows, decode_part
from trainyard.formats import pictures, sounds
from trainyard.formats.media import MAX_CAPTION
from trainyard.formats.words import listed

MAX_EDGE = 1e300  # so that the difference of two is a number

Checked = tuple[JsonObject, bytes]  # meta and data, as they are stored


class TableDocument(TypedDict):
    columns: list[str]
    rows: list[list[str | bool | int | float | None]]


class HistogramDocument(TypedDict):
    edges: Annotated[list[float], Meta(description="one more than counts")]
    counts: list[float]


class Content(TypedDict):
    """The data of an item: one of these, none for a file."""

    text: NotRequired[str]
    table: NotRequired[TableDocument]
    histogram: NotRequired[HistogramDocument]


class Histogram(NamedTuple):
    """n + 1 edges that grow, and n counts."""

    edges: Floats
    counts: Floats


class KindRow(NamedTuple):
    """``formats`` are those of a file, which is kept and handed out as it came, as ``kind/format``. Anything else is
    stored compressed, and ``content`` makes what JSON has of it, from its meta and its data."""

    one: str
    many: str
    meta: str  # what an item's meta has, for who reads the interface
    check: Callable[[Any, bytes], Checked]  # from the contract's META and the data; raises BadRecord
    content: Callable[[JsonObject, bytes], Content] = lambda _meta, _data: {}
    formats: tuple[str, ...] = ()


def histogram_of(data: bytes) -> Histogram:
    values = np.frombuffer(data, "<f8")
    half = values.size // 2 + 1
    return Histogram(values[:half], values[half:])


def _image(meta: records.Caption, data: bytes) -> Checked:
    found = pictures.format_of(data)
    if not found:
        raise BadRecord(f"data: an image is {', '.join(pictures.FORMATS)}; these bytes are none of them")
    size = pictures.size_of(data)
    if size is None:
        raise BadRecord(f"data: the head of this {found} has no width and height")
    if max(size) > pictures.MAX_SIDE or size[0] * size[1] > pictures.MAX_PIXELS:
        raise BadRecord(f"data: an image of {size[0]} x {size[1]} pixels is too large to be shown")
    # The file itself goes before what the record says of it.
    return {"caption": _caption(meta), "width": size[0], "height": size[1], "format": found}, data


def _audio(meta: records.Caption, data: bytes) -> Checked:
    try:
        found = sounds.head_of(data)
    except ValueError as error:
        raise BadRecord(f"data: {error}") from None
    return {"caption": _caption(meta), **found._asdict(), "format": sounds.WAV}, data


def _video(meta: records.Caption, data: bytes) -> Checked:
    if not (found := pictures.video_format_of(data)):
        raise BadRecord(f"data: a video is {' or '.join(pictures.VIDEO_FORMATS)}; these bytes are neither")
    return {"caption": _caption(meta), "format": found}, data


def _caption(meta: records.Caption) -> str:
    return storable(meta.caption)[:MAX_CAPTION]


def _text(meta: records.TextStyle, data: bytes) -> Checked:
    try:
        text = storable(data.decode())
    except UnicodeDecodeError as error:
        raise BadRecord(f"data: a text is UTF-8: {error}") from error
    return {"chars": len(text), "format": meta.format}, text.encode()


def _table(meta: records.TableMeta, data: bytes) -> Checked:
    found = decode_part(data, Rows, "data")
    width = len(meta.columns)
    uneven = next((len(row) for row in found if len(row) != width), None)
    if uneven is not None:
        raise BadRecord(f"data: a table of {width} columns has a row of {uneven} cells")
    columns = [storable(name) for name in meta.columns]
    return _known(columns=columns, rows=len(found), num_rows=meta.num_rows, num_columns=meta.num_columns), data


def _table_content(meta: JsonObject, data: bytes) -> Content:
    rows = [[_cell(cell) for cell in cells] for cells in decode_part(data, Rows, "data")]
    return {"table": {"columns": meta["columns"], "rows": rows}}


def _cell(cell: Any) -> Any:
    return word_of(cell) or cell if isinstance(cell, float) else cell


def _histogram(meta: records.HistogramMeta, data: bytes) -> Checked:
    if len(data) != 8 * (2 * meta.bins + 1):
        raise BadRecord(f"a histogram of {meta.bins} bins has {2 * meta.bins + 1} numbers, not {len(data) / 8:g}")
    edges, counts = histogram_of(data)
    if not (np.abs(edges) <= MAX_EDGE).all() or not (np.diff(edges) > 0).all():
        raise BadRecord("the edges of a histogram are finite numbers that grow")
    if not ((counts >= 0) & (counts <= MAX_BIN_COUNT)).all():
        raise BadRecord(f"the counts of a histogram are numbers from 0 to {MAX_BIN_COUNT:,}")
    return _known(bins=meta.bins, count=meta.count, num_not_finite=meta.num_not_finite), data


def _histogram_content(_: JsonObject, data: bytes) -> Content:
    edges, counts = histogram_of(data)
    return {"histogram": {"edges": edges.tolist(), "counts": counts.tolist()}}


def _known(**fields: int | list[str] | None) -> JsonObject:
    return {name: value for name, value in fields.items() if value is not None}


KINDS: dict[str, KindRow] = {
    "image": KindRow("image", "images", "caption, width, height, format", _image, formats=pictures.FORMATS),
    "text": KindRow("text", "texts", "chars, format", _text, lambda _, data: {"text": data.decode()}),
    "table": KindRow(
        "table", "tables", "columns, rows, and num_rows and num_columns of the whole where it was cut",
        _table, _table_content,
    ),
    "histogram": KindRow(
        "histogram", "histograms", "bins, and count and num_not_finite where known", _histogram, _histogram_content,
    ),
    "audio": KindRow(
        "sound", "sounds", "caption, sample_rate, channels, duration_s, format", _audio, formats=(sounds.WAV,),
    ),
    "video": KindRow("video", "videos", "caption, format", _video, formats=pictures.VIDEO_FORMATS),
}  # fmt: skip


ONE_OF = listed([kind.one for kind in KINDS.values()], last="or")
ANY_OF, ALL_OF = (listed([kind.many for kind in KINDS.values()], last=last) for last in ("or", "and"))
