"""Media that a script logs beside numbers. A kind is a class here and a row of ``runs.records.media.kinds``.

``run.log({"samples": trainyard.Image(picture), "train/loss": 0.5}, step=10)``. Making one copies what it is given, so
that the script may change that at once; the SDK's own thread encodes it. Nothing here raises into a training: what
cannot be logged knows its ``problem``, and costs one warning when it is logged.
"""

import io
import os
from collections.abc import Callable, Iterable, Mapping, Sized
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, get_args

from trainyard.contract import records
from trainyard.contract.base import WireStruct
from trainyard.formats import arrays, sounds
from trainyard.formats.arrays import as_bytes, as_samples, copied, is_tensor, numpy_or_none, pixels_first, samples_first
from trainyard.formats.pictures import FORMATS, MAX_PIXELS, MAX_SIDE, format_of, png, size_of, video_format_of

MAX_FILE_BYTES = 1024 * 1024  # a record has no room for more
MAX_CAPTION = 2_000  # characters
MAX_CELL = 10_000  # characters
CELL_BYTES = 16  # about what one takes in memory
COPY_BYTES = 16 * 1024 * 1024  # of values; more are counted at once, and not copied first
TEXT_FORMATS: tuple[records.TextFormat, ...] = get_args(records.TextFormat)

Encoded = tuple[WireStruct, bytes]


class Media:
    """One thing to log at a step."""

    kind: records.MediaKind
    problem = ""  # why it cannot be logged
    num_bytes = 0  # about what it holds in memory until it is encoded
    advice = ""  # how one that is too large gets smaller

    def encode(self, room_bytes: int) -> Encoded:
        """Return what is said of it, and its bytes; ``room_bytes`` are what both may take. Raises what goes wrong."""
        raise NotImplementedError

    def _try(self, take: Callable[..., None], *arguments: Any) -> None:
        try:
            take(*arguments)
        except Exception as error:  # foreign objects raise what they like, and training must go on
            self.problem = f"cannot be logged as {self.kind}: {str(error) or type(error).__name__:.300}"


class _OfFile(Media):
    """What may be given as a file: its content is made where it is encoded."""

    _take: Callable[..., None]

    def __init__(self, caption: object, *given: Any) -> None:
        self._caption = str(caption)[:MAX_CAPTION].encode("utf-8", "replace").decode()
        self._make: Callable[[], bytes] = bytes
        self._try(self._take, *given)

    def _keep(self, data: bytes) -> None:
        self.num_bytes = len(data)
        self._make = lambda: data


class Image(_OfFile):
    """A picture: a path; the bytes of a PNG, JPEG, WebP or GIF; an image of Pillow's (or whatever has ``save``); a
    figure of Matplotlib's; or an array or tensor.

    Arrays are H x W, H x W x C or C x H x W, with C of 1 (grey), 3 (RGB) or 4 (RGBA). Where both can be meant, tensors
    of PyTorch have their channels first and others last. uint8 is 0 to 255, floats are 0 to 1; what is beyond is
    clipped. Arrays and figures become PNG; an image of Pillow's what ``format`` says (PNG).
    """

    kind = "image"
    advice = "scale it down, or give it as a JPEG"

    def __init__(self, data: Any, caption: str = "", format: str | None = None) -> None:
        super().__init__(caption, data, format)

    def encode(self, room_bytes: int) -> Encoded:
        data = self._make()
        found, size = format_of(data), size_of(data)
        if not size:
            raise ValueError("these bytes are no PNG, JPEG, WebP or GIF")
        if max(size) > MAX_SIDE or size[0] * size[1] > MAX_PIXELS:
            raise ValueError(f"{size[0]} x {size[1]} pixels are too many to be shown")
        return records.ImageMeta(caption=self._caption, width=size[0], height=size[1], format=found), data

    def _take(self, data: Any, form: str | None) -> None:
        if form is not None and form not in FORMATS:
            raise ValueError(f"the format {form!r:.60} is none of {', '.join(FORMATS)}")
        if (content := _content(data)) is not None:
            self._keep(content)
        elif callable(getattr(data, "savefig", None)):
            buffer = io.BytesIO()
            data.savefig(buffer, format="png")
            self._keep(buffer.getvalue())
        elif callable(getattr(data, "save", None)):
            self._take_saveable(data, form or "png")
        else:
            self._take_array(data)

    def _keep(self, data: bytes) -> None:
        if not format_of(data):
            raise ValueError("it is no PNG, JPEG, WebP or GIF")
        super()._keep(data)

    def _take_saveable(self, image: Any, form: str) -> None:
        own = image.copy() if callable(getattr(image, "copy", None)) else image
        width, height = getattr(image, "size", (1024, 1024))
        self.num_bytes = int(width) * int(height) * 4

        def make() -> bytes:
            buffer = io.BytesIO()
            own.save(buffer, form.upper())
            return buffer.getvalue()

        self._make = make

    def _take_array(self, data: Any) -> None:
        rows = pixels_first(copied(data), is_tensor=is_tensor(data))
        if rows.dtype.kind not in "biuf":
            raise ValueError(f"pixels are numbers, not {rows.dtype}")
        self.num_bytes = int(rows.nbytes)
        height, width, channels = rows.shape
        if max(height, width) > MAX_SIDE or height * width > MAX_PIXELS:
            raise ValueError(f"{width} x {height} pixels are too many to be shown")
        self._make = lambda: png(as_bytes(rows), width, height, channels)


class Audio(_OfFile):
    """A sound: a path or the bytes of a WAV; or an array or tensor of ``sample_rate`` samples a second.

    Arrays are of one channel, or L x C or C x L with the channels on the shorter side. int16 is taken as it is, floats
    are -1 to 1; what is beyond is clipped, and NaN is silence. They become a WAV of 16 bits.
    """

    kind = "audio"
    advice = "cut it, or lower its sample rate"

    def __init__(self, data: Any, sample_rate: int | None = None, caption: str = "") -> None:
        super().__init__(caption, data, sample_rate)

    def encode(self, room_bytes: int) -> Encoded:
        data = self._make()
        return records.AudioMeta(caption=self._caption, **sounds.head_of(data)._asdict(), format=sounds.WAV), data

    def _take(self, data: Any, sample_rate: int | None) -> None:
        if (content := _content(data)) is not None:
            sounds.head_of(content)
            self._keep(content)
            return
        if type(sample_rate) is not int or sample_rate not in sounds.RATES:
            allowed = f"{sounds.RATES[0]:,} to {sounds.RATES[-1]:,}"
            raise ValueError(f"sample_rate is {sample_rate!r:.60}, and a whole number from {allowed} is")
        rows = samples_first(copied(data), sounds.MAX_CHANNELS)
        self.num_bytes = int(rows.nbytes)
        self._make = lambda: sounds.wav(as_samples(rows), sample_rate, rows.shape[1])


class Video(_OfFile):
    """A video of at most 1 MiB: a path or the bytes of an MP4, WebM or GIF; or frames, ``fps`` a second, which become a
    GIF by Pillow. They are an array or tensor of T x H x W x C or T x C x H x W, each as an ``Image`` has its pixels;
    ``channels_first`` says which, where both can be meant."""

    kind: records.MediaKind = "video"
    advice = "cut it, or scale it down"

    def __init__(self, data: Any, fps: float = 4, caption: str = "", channels_first: bool | None = None) -> None:
        super().__init__(caption, data, fps, channels_first)

    def encode(self, room_bytes: int) -> Encoded:
        data = self._make()
        if self.kind == "video":
            return records.VideoMeta(caption=self._caption, format=video_format_of(data)), data
        width, height = size_of(data) or (0, 0)
        return records.ImageMeta(caption=self._caption, width=width, height=height, format="gif"), data

    def _take(self, data: Any, fps: float, channels_first: bool | None) -> None:
        if (content := _content(data)) is not None:
            if not video_format_of(content) and format_of(content) != "gif":
                raise ValueError("it is no MP4, WebM or GIF")
            self.kind = "video" if video_format_of(content) else "image"
            self._keep(content)
            return
        rows = copied(data)
        if rows.ndim != 4 or not rows.size or rows.dtype.kind not in "biuf":
            raise ValueError(f"frames are numbers of T x H x W x C or T x C x H x W, not {rows.dtype} of {rows.shape}")
        if not 0 < fps <= 100:
            raise ValueError(f"fps is {fps!r:.60}, and above 0 to 100 is")
        if find_spec("PIL") is None:
            raise ValueError("frames need Pillow")
        is_first = is_tensor(data) if channels_first is None else channels_first
        frames = [pixels_first(one, is_tensor=is_first) for one in rows]
        self.kind, self.num_bytes, self._make = "image", int(rows.nbytes), lambda: _gif(frames, fps)


def _gif(frames: Iterable[Any], fps: float) -> bytes:
    from PIL import Image as Pillow

    modes, buffer = {1: "L", 3: "RGB", 4: "RGBA"}, io.BytesIO()
    first, *others = (
        Pillow.frombytes(modes[one.shape[2]], (one.shape[1], one.shape[0]), as_bytes(one)) for one in frames
    )
    first.save(buffer, "GIF", save_all=True, append_images=others, duration=round(1000 / fps), loop=0)
    return buffer.getvalue()


class Histogram(Media):
    """Distribution of values: counted in ``bins`` equal bins, by NumPy where there is one. NaN and infinities are left
    out, and how many they were is kept. Or a histogram that is there already: ``counts``, and one more ``edges``."""

    kind = "histogram"

    def __init__(self, values: Any = None, *, bins: int = 64, counts: Any = None, edges: Any = None) -> None:
        self._make: Callable[[], arrays.Binned] | None = None
        if counts is not None or edges is not None:
            self._try(self._take_counts, values, counts, edges)
        else:
            self._try(self._take, values, bins)

    def encode(self, room_bytes: int) -> Encoded:
        assert self._make is not None, "what has a problem is not encoded"
        found = self._make()
        meta = records.HistogramMeta(len(found.counts), found.num_not_finite or None)
        return meta, found.edges.tobytes() + found.counts.tobytes()

    def _take_counts(self, values: Any, counts: Any, edges: Any) -> None:
        if values is not None or counts is None or edges is None:
            raise ValueError("it takes values, or counts and edges")
        found = arrays.given(_listed(edges), _listed(counts))
        if len(found.counts) > records.MAX_BINS:
            raise ValueError(f"{len(found.counts):,} bins are more than {records.MAX_BINS:,}")
        self._keep(found)

    def _take(self, values: Any, bins: Any) -> None:
        if type(bins) is not int or not 0 < bins <= records.MAX_BINS:
            raise ValueError(f"bins is {bins!r:.60}, and a whole number from 1 to {records.MAX_BINS:,} is")
        if numpy_or_none() is None:
            own = values = [float(value) for value in _listed(values)]
            size = 8 * len(own)
        else:
            own = copied(values)
            if values is None or own.dtype.kind not in "biufO":
                raise ValueError(f"values are numbers, not {'None' if values is None else own.dtype}")
            size = int(own.nbytes)
        if size > COPY_BYTES:
            self._keep(arrays.binned(own, bins))
        else:
            self.num_bytes = size
            self._make = lambda: arrays.binned(own, bins)

    def _keep(self, found: arrays.Binned) -> None:
        self.num_bytes = 16 * len(found.counts)
        self._make = lambda: found


class Text(Media):
    """A text, ``plain`` or ``markdown``."""

    kind = "text"

    def __init__(self, text: str, format: records.TextFormat = "plain") -> None:
        self._data, self._format = b"", format
        self._try(self._take, text)

    def encode(self, room_bytes: int) -> Encoded:
        return records.TextMeta(chars=len(self._data.decode()), format=self._format), self._data

    def _take(self, text: Any) -> None:
        if self._format not in TEXT_FORMATS:
            raise ValueError(f"the format {self._format!r:.60} is none of {', '.join(TEXT_FORMATS)}")
        self._data = str(text).encode("utf-8", "replace")
        self.num_bytes = len(self._data)


class Html(Text):
    """A page, by its source, its open file or a path that ends in ``.html``. It is shown in a frame in which no script
    runs, and nothing is loaded."""

    def __init__(self, page: Any) -> None:
        super().__init__(page, "html")

    def _take(self, text: Any) -> None:
        is_path = isinstance(text, os.PathLike) or (isinstance(text, str) and text.endswith(".html"))
        super()._take(
            _file(Path(text)).decode("utf-8", "replace") if is_path else text.read() if hasattr(text, "read") else text
        )


class Table(Media):
    """Rows of texts, numbers, booleans and None, under the names of their columns. At most 10,000 rows of 200 columns
    are kept, and no more than a record holds; what was cut off is said with it. Other cells become texts."""

    kind = "table"

    def __init__(self, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
        self._columns: list[str] = []
        self._rows: list[list[Any]] = []
        self._num_rows: int | None = None  # of the whole, where it was cut
        self._num_columns: int | None = None
        self._try(self._take, columns, rows)

    def encode(self, room_bytes: int) -> Encoded:
        rows: list[list[records.Cell]] = [[_cell(cell) for cell in row] for row in self._rows]
        meta = records.TableMeta(self._columns, len(rows), self._num_rows, self._num_columns)
        room = room_bytes - len(records.encode_record(meta)) - 32
        while len(data := records.encode_record(rows)) > room and rows:
            del rows[int(len(rows) * max(0, room) / len(data) * 0.95) :]
            num_rows = len(self._rows) if self._num_rows is None else self._num_rows
            meta = records.TableMeta(self._columns, len(rows), num_rows, self._num_columns)
        if self._rows and not rows:
            raise ValueError("not one row fits into a record, which has 1 MiB")
        return meta, data

    def _take(self, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
        names = [_short(name, records.MAX_COLUMN) for name in columns]
        num_rows = least = 0  # a record has no room for more than so many cells and characters
        for row in islice(rows, records.MAX_ROWS + 1):
            num_rows += 1
            if num_rows > records.MAX_ROWS or least > MAX_FILE_BYTES:
                break
            cells = list(row)
            if len(cells) != len(names):
                raise ValueError(f"row {num_rows} has {len(cells)} cells, and there are {len(names)} columns")
            self._rows.append([_cut(cell) for cell in cells[: records.MAX_COLUMNS]])
            least += len(self._rows[-1]) + sum(len(cell) for cell in self._rows[-1] if type(cell) is str)
        if num_rows > len(self._rows):
            self._num_rows = len(rows) if isinstance(rows, Sized) else num_rows
        if len(names) > records.MAX_COLUMNS:
            self._num_columns = len(names)
        self._columns = names[: records.MAX_COLUMNS]
        self.num_bytes = CELL_BYTES * least


def is_media(value: object) -> bool:
    """Return whether it is something to log that is no number, or a list of such."""
    if isinstance(value, list | tuple):
        return bool(value) and all(isinstance(one, Media) for one in value)
    return isinstance(value, Media)


def _content(given: Any) -> bytes | None:
    """Return the bytes that were given, or those of the path; None for what is neither."""
    if isinstance(given, str | os.PathLike):
        return _file(Path(given))
    return bytes(given) if isinstance(given, bytes | bytearray | memoryview) else None


def _file(path: Path) -> bytes:
    size = path.stat().st_size
    if size > MAX_FILE_BYTES:
        raise ValueError(f"the file has {size:,} bytes, and a record 1 MiB")
    return path.read_bytes()


def _listed(values: Any) -> list[Any]:
    """Return numbers of any kind of sequence, of NumPy or PyTorch too."""
    if isinstance(values, str | bytes | Mapping):
        raise ValueError(f"{type(values).__name__} are no numbers")
    return list(copied(values).reshape(-1)) if hasattr(values, "shape") else list(values)


def _cell(value: Any) -> records.Cell:
    plain = value.item() if callable(getattr(value, "item", None)) else value
    if plain is None or isinstance(plain, bool | float):
        return plain
    if isinstance(plain, int) and -(2**63) <= plain < 2**64:
        return plain
    return _short(plain, MAX_CELL)


def _cut(value: Any) -> Any:
    return _short(value, MAX_CELL) if type(value) is str and len(value) > MAX_CELL else value


def _short(value: object, at_most: int) -> str:
    text = str(value)
    if len(text) > at_most:
        text = text[: at_most - 1] + "…"
    return text.encode("utf-8", "replace").decode()
