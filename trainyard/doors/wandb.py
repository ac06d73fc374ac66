"""W&B's own files, ``run-ID.wandb``: what a run sent or would have sent, as a run to import.

A file is a LevelDB log behind seven bytes (``:W&B``, 0xBEE1, a version): blocks of 32 KiB with chunks, each
``<u32 CRC-32 of type and body><u16 length><u8 type>`` and a body. Chunks make up a ``Record`` in Protocol Buffers
(wandb/proto/wandb_internal.proto). Media lie in ``files/`` beside it.
"""

import io
import json
import math
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from trainyard.contract.base import JsonObject
from trainyard.contract.records import AnyRecord, MetricRule, Stream
from trainyard.doors.gathering import Gathering
from trainyard.doors.importing import ForeignRun, SourceFile
from trainyard.doors.protobuf import WRONG, fields, signed
from trainyard.formats.media import Audio, Histogram, Image, Media, Table, Text, Video
from trainyard.grouping import grouped
from trainyard.sdk.description import metric_rule

HEAD, VERSION = b":W&B\xe1\xbe", 0
BLOCK_BYTES = 32 * 1024
CHUNK = struct.Struct("<IHB")
WHOLE, FIRST, MIDDLE, LAST = 1, 2, 3, 4
CRC_OF = [zlib.crc32(bytes([kind])) for kind in range(5)]
TAKE_EVERY = 2_000  # records
HISTORY, SUMMARY, CONFIG, ALERT, METRIC, OUTPUT, RUN, EXIT = 2, 3, 5, 10, 12, 13, 17, 18  # fields of a Record
STREAMS: dict[int, Stream] = {0: "stderr", 1: "stdout"}
STATISTICS = {1: "min", 2: "max", 3: "mean", 4: "best", 5: "last"}
GOALS = {1: "min", 2: "max"}
NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def foreign_runs(root: Path) -> list[ForeignRun]:
    """Return a run for each id of W&B's with files at or below ``root``, such as ``./wandb``. Links are not followed.
    Raises OSError."""
    next(root.iterdir(), None)
    paths = [path for path in sorted(root.rglob("run-*.wandb")) if path.is_file() and not path.is_symlink()]
    found = []
    for own, wandb_files in grouped((path.stem.removeprefix("run-"), WandbFile(path)) for path in paths).items():
        head = wandb_files[0].head()
        name = head.get(8, b"").decode("utf-8", "replace") or own
        where = b"/".join((head.get(2, b""), head.get(3, b""))).decode("utf-8", "replace")
        found.append(ForeignRun(f"wandb {where} {own}", name, str(wandb_files[0].path.parent), wandb_files))
    return found


class WandbFile(SourceFile):
    """One without an exit has no end: its process may still write."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.key = f"{path.parent.name}/{path.name}"
        self.end = path.stat().st_size

    def head(self) -> dict[int, Any]:
        """Return the fields of the record about the run; none where there is none."""
        with self.path.open("rb") as file:
            for body, _ in chunks(file, self.end, lambda _: None):
                for number, value in fields(body):
                    if number == RUN:
                        return dict(fields(value))
        return {}

    def records(self, gathering: Gathering, start: int, end: int) -> Iterator[AnyRecord]:
        """Yield the records between two places. What lies before is read for the configuration and the last texts."""
        translator = Translator(Gathering(), self.path.parent / "files")
        place = 0
        with self.path.open("rb") as file:
            for count, (body, place) in enumerate(
                chunks(file, end, lambda why: gathering.refuse(str(self.path), why)), 1
            ):
                if place > start and translator.gathering is not gathering:
                    translator.turn_to(gathering)
                try:
                    translator.take(body)
                except WRONG as error:
                    translator.gathering.refuse("", f"records that are none of W&B's ({error})")
                if place <= start:
                    translator.gathering = Gathering()  # the server has these
                elif count % TAKE_EVERY == 0:
                    yield from gathering.take()
        if place > start:
            yield from gathering.take()
        self.first_at, self.error = translator.first_at, translator.error
        self.last_at = translator.last_at if translator.has_ended else -math.inf


def chunks(file: io.BufferedReader, end: int, refuse: Any) -> Iterator[tuple[bytes, int]]:
    """Yield each whole record and the place behind it. A torn end is left for the next time. Raises OSError."""
    head = file.read(7)
    if head[:6] != HEAD or head[6] != VERSION:
        refuse("it is no file of W&B's" if head[:6] != HEAD else f"version {head[6]} of W&B's files is not known")
        return
    place = 7
    parts: list[bytes] = []
    while place + CHUNK.size <= end:
        room = BLOCK_BYTES - place % BLOCK_BYTES
        if room < CHUNK.size:
            place += room
            file.seek(place)
            continue
        check, length, kind = CHUNK.unpack(file.read(CHUNK.size))
        if place + CHUNK.size + length > end:
            return
        body = file.read(length)
        if not WHOLE <= kind <= LAST or zlib.crc32(body, CRC_OF[kind]) != check:
            if check or length or kind:  # else zeros, which a writer that was killed leaves
                refuse(f"the record at byte {place:,} is damaged; the rest of its block is left out")
            place += room
            file.seek(place)
            parts = []
            continue
        place += CHUNK.size + length
        parts = [body] if kind in (WHOLE, FIRST) else [*parts, body]
        if kind in (WHOLE, LAST):
            yield b"".join(parts), place


class Translator:
    """Takes the records of one file in order."""

    def __init__(self, gathering: Gathering, files: Path) -> None:
        self.gathering = gathering
        self.first_at, self.last_at = math.inf, -math.inf  # Unix seconds
        self.has_ended, self.error = False, ""
        self._files = files
        self._config: JsonObject = {}
        self._about: JsonObject = {}  # tags, notes, group, job_type
        self._metrics: dict[str, MetricRule] = {}
        self._last: JsonObject = {}  # value by name
        self._summary: JsonObject = {}
        self._lines: dict[Stream, str] = {}  # a line's beginning, by stream
        self._step = 0

    def turn_to(self, gathering: Gathering) -> None:
        """Go on with another one, which knows nothing yet."""
        self.gathering = gathering
        if self._config or self._about:
            self._describe()

    def take(self, body: bytes) -> None:
        for number, value in fields(body):
            if number == HISTORY:
                self._history(list(fields(value)))
            elif number == SUMMARY:
                self._summary.update(_tree(one for key, one in fields(value) if key == 1))
            elif number == OUTPUT:
                self._output(dict(fields(value)))
            elif number in (RUN, CONFIG, METRIC):
                self._learn(number, list(fields(value)))
            elif number == ALERT:
                found = {key: one.decode("utf-8", "replace") for key, one in fields(value) if key in (1, 2, 3)}
                text = Text(f"{found.get(1, '')}\n{found.get(2, '')}")
                self.gathering.media(f"alert/{found.get(3, 'info').lower()}", self._step, self._at(), text)
            elif number == EXIT:
                self._exit(dict(fields(value)))

    def _at(self) -> float:
        return next((at for at in (self.last_at, self.first_at) if math.isfinite(at)), 0.0)

    def _learn(self, number: int, found: list[tuple[int, Any]]) -> None:
        if number == METRIC:
            rule = dict(found)
            if name := rule.get(1, b"").decode("utf-8", "replace"):
                which = next((STATISTICS[key] for key, _ in fields(rule.get(7, b"")) if key in STATISTICS), None)
                x = rule.get(4, b"").decode("utf-8", "replace")
                self._metrics[name] = metric_rule(name, x, which, GOALS.get(rule.get(8, 0)))
        elif number == CONFIG:
            self._config.update(_tree(one for key, one in found if key == 1))
        else:
            about = {key: value for key, value in found if isinstance(value, bytes)}
            self._config.update(_tree(one for key, one in fields(about.get(4, b"")) if key == 1))
            named = {name: about.get(key, b"") for key, name in ((6, "group"), (7, "job_type"), (9, "notes"))}
            texts = {name: value.decode("utf-8", "replace") for name, value in named.items()}
            tags = [value.decode("utf-8", "replace") for key, value in found if key == 10]
            self._about = {**texts, "tags": tags}
            if 17 in about:
                self.first_at = min(self.first_at, _moment(about[17]))
        self._config.pop("_wandb", None)
        self._describe()

    def _describe(self) -> None:
        self.gathering.describe(self._config, metrics=self._metrics, **self._about)

    def _history(self, found: list[tuple[int, Any]]) -> None:
        row = _tree(value for key, value in found if key == 1)
        step = next((value for key, value in found if key == 2), b"")
        self._step = signed(dict(fields(step)).get(1, 0))
        at = row.pop("_timestamp", None)
        if type(at) in (int, float) and math.isfinite(at):
            self.first_at, self.last_at = min(self.first_at, at), max(self.last_at, at)
        for name, value in row.items():
            if not name.startswith("_"):
                self._value(name, value, self._at())

    def _value(self, name: str, value: Any, at: float) -> None:
        gathering = self.gathering
        if isinstance(value, dict) and "_type" not in value:
            for inner, one in value.items():
                self._value(f"{name}/{inner}", one, at)
        elif isinstance(value, dict):
            for media in self._media(name, value):
                gathering.media(name, self._step, at, media)
        elif isinstance(value, str) and value not in NOT_FINITE:
            if self._last.get(name) != value:
                gathering.media(name, self._step, at, Text(value))
            self._last[name] = value
        elif value is None or isinstance(value, list):
            gathering.refuse(name, f"is {'null' if value is None else 'a list'}, and no number")
        else:
            self._last[name] = number = NOT_FINITE[value] if isinstance(value, str) else float(value)
            gathering.point(name, self._step, at, number)

    def _media(self, name: str, value: JsonObject) -> Iterator[Media]:
        kind = value["_type"]
        if kind == "histogram":
            edges = value.get("bins") or _packed(value)
            yield Histogram(counts=value["values"], edges=edges)
        elif kind in ("image-file", "audio-file", "video-file", "html-file", "table-file"):
            yield self._file(kind, value["path"], str(value.get("caption") or ""))
        elif kind == "images/separated":
            captions = value.get("captions") or []
            captions = captions if isinstance(captions, list) else []
            for index, path in enumerate(value.get("filenames") or ()):
                yield self._file("image-file", path, str(captions[index] if index < len(captions) else ""))
        else:
            self.gathering.refuse(name, f"{kind} has no counterpart")

    def _file(self, kind: str, path: str, caption: str) -> Media:
        whole = (self._files / path).resolve()
        if not whole.is_relative_to(self._files.resolve()) or not whole.is_file():
            lost = Text("")
            lost.problem = f"{path:.200} does not lie beside the file"
            return lost
        if kind == "table-file":
            table = json.loads(whole.read_bytes())
            return Table(table["columns"], table["data"])
        if kind == "html-file":
            return Text(whole.read_text("utf-8", "replace"))
        make: Callable[..., Media] = {"image-file": Image, "audio-file": Audio, "video-file": Video}[kind]
        return make(whole, caption=caption)

    def _output(self, found: dict[int, Any]) -> None:
        stream = STREAMS.get(found.get(1, 0), "stdout")
        text = self._lines.get(stream, "") + found.get(3, b"").decode("utf-8", "replace")
        *lines, self._lines[stream] = text.split("\n")
        at = _moment(found.get(2, b""))
        for line in lines:
            self.gathering.line(stream, at, line.rpartition("\r")[2])

    def _exit(self, found: dict[int, Any]) -> None:
        self.has_ended = True
        code = signed(found.get(1, 0))
        self.error = f"exit code {code}" if code else ""
        for name, value in self._summary.items():
            is_number = type(value) in (int, float) and not name.startswith("_")
            if is_number and str(self._last.get(name)) != str(float(value)):  # texts, since NaN is no NaN
                self._value(f"summary/{name}", value, self._at())
        for stream, line in self._lines.items():
            if line:
                self.gathering.line(stream, self._at(), line)


def _tree(items: Iterator[bytes]) -> JsonObject:
    """Return items as a dictionary: their keys, which may lie in each other, and their values as JSON."""
    made: JsonObject = {}
    for item in items:
        found = list(fields(item))
        keys = [value.decode("utf-8", "replace") for key, value in found if key in (1, 2) and value]
        text = next((value for key, value in found if key == 16), b"null")
        inner = made
        for key in keys[:-1]:
            inner = inner.setdefault(key, {})
        if keys and isinstance(inner, dict):
            inner[keys[-1]] = json.loads(text)
    return made


def _packed(value: JsonObject) -> list[float]:
    """Return the edges of bins that W&B keeps as their ends and number."""
    packed = value["packedBins"]
    return [packed["min"] + index * packed["size"] for index in range(packed["count"] + 1)]


def _moment(data: bytes) -> float:
    """Return a ``Timestamp`` as Unix seconds."""
    found = dict(fields(data))
    return float(found.get(1, 0)) + float(found.get(2, 0)) / 1e9
