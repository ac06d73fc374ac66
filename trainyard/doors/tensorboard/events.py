"""Events of TensorBoard (tensorflow/core/util/event.proto, summary.proto) as points, media and a configuration."""

from __future__ import annotations

import math
import struct
from array import array
from typing import Any

from trainyard.doors.gathering import Gathering
from trainyard.doors.protobuf import DOUBLE, SCALAR, WRONG, BadMessage, fields, signed, varint, varints
from trainyard.doors.tensorboard.packed import NUMBER_KEY, STEP_KEY, TIME_BYTES, TIME_KEY, Gap, PackedReader
from trainyard.formats.media import Audio, Histogram, Image, Text
from trainyard.sdk.buffers import Labels

WHOLE_TYPES = {3: "i", 4: "B", 5: "h", 6: "b", 9: "q", 17: "H", 22: "I", 23: "Q"}  # of a tensor's content, by dtype


class Translator:
    """Takes the bodies of one file's records in order, since what a tag means is said at its first record alone."""

    def __init__(self, gathering: Gathering, labels: Labels = ()) -> None:
        self.gathering, self._labels = gathering, labels
        self._plugins: dict[str, str] = {}  # by tag
        self._packed = PackedReader()
        self.first_at, self.last_at = math.inf, -math.inf  # Unix seconds

    def take_packed(self, data: bytes) -> list[Gap]:
        """Add the points of records that are like others before, and return the stretches of the data that are left."""
        found, gaps = self._packed.read(data)
        for tag, steps, times, values in found:
            rows = self.gathering.rows(tag, self._labels)
            rows.steps.frombytes(steps.tobytes())
            rows.times.frombytes(times.tobytes())
            rows.values.frombytes(values.tobytes())
            self.first_at = min(self.first_at, float(times.min()))
            self.last_at = max(self.last_at, float(times.max()))
        return gaps

    def take(self, bodies: list[bytes]) -> None:
        """Add what the records hold to the gathering; it may be emptied between two calls."""
        known = self._packed.tags
        for body in bodies:
            try:
                step, place = varint(body, TIME_BYTES + 1) if body[TIME_BYTES] == STEP_KEY else (0, TIME_BYTES)
                tag, at = known.get(body[place:-4]), DOUBLE.unpack_from(body, 1)[0]
                if tag is None or body[0] != TIME_KEY or not math.isfinite(at):
                    self._read_any(body)
                    continue
                self._point(tag, signed(step), at, SCALAR.unpack_from(body, len(body) - 4)[0])
                self.first_at, self.last_at = min(self.first_at, at), max(self.last_at, at)
            except WRONG as error:
                self.gathering.refuse("", f"records that are no events ({error})")

    def _read_any(self, body: bytes) -> None:
        found = dict(fields(body))
        at, step = found.get(1, 0.0), signed(found.get(2, 0))
        if type(at) is not float or not math.isfinite(at) or type(step) is not int:
            raise BadMessage(f"the time is {at!r:.60}, the step {step!r:.60}")
        self.first_at, self.last_at = min(self.first_at, at), max(self.last_at, at)
        if 4 in found or 9 in found:
            self.gathering.refuse("", "graphs")
        if 5 not in found:
            return
        values = list(fields(found[5]))
        for number, value in values:
            if number == 1:
                self._read_value(value, step, at)
        if len(values) == 1 and tuple(found) in ((1, 5), (1, 2, 5)):
            self._learn(body, values[0][1])

    def _learn(self, body: bytes, value: bytes) -> None:
        """Know the next records of a tag by their bytes, where this one is its name and number alone."""
        inner = list(fields(value))
        if (body[0], body[-5]) != (TIME_KEY, NUMBER_KEY) or [key for key, _ in inner] != [1, 2]:
            return
        tag = inner[0][1].decode()
        place = varint(body, TIME_BYTES + 1)[1] if body[TIME_BYTES] == STEP_KEY else TIME_BYTES
        if [key for key, _ in fields(body[place:])] == [5] and self._plugins.get(tag, "scalars") == "scalars":
            self._packed.learn(body[place:-4], tag)

    def _read_value(self, data: bytes, step: int, at: float) -> None:
        found = dict(fields(data))
        tag = found.get(1, b"").decode()
        plugin, content = _plugin(found.get(9, b""))
        plugin = self._plugins.setdefault(tag, plugin) if plugin else self._plugins.get(tag, "")
        if plugin == "hparams":
            if values := _hyperparameters(content):
                self.gathering.config(values, self._labels)
        elif 2 in found:
            self._point(tag, step, at, found[2])
        elif 4 in found:
            self.gathering.media(tag, step, at, Image(dict(fields(found[4])).get(4, b"")), self._labels)
        elif 5 in found:
            self.gathering.media(tag, step, at, _histogram(found[5]), self._labels)
        elif 6 in found:
            self.gathering.media(tag, step, at, Audio(dict(fields(found[6])).get(4, b"")), self._labels)
        elif 8 in found:
            self._read_tensor(tag, plugin, step, at, Tensor(found[8]))
        else:
            self.gathering.refuse("", f"{plugin or 'empty'} values")

    def _point(self, name: str, step: int, at: float, value: float) -> None:
        if type(value) is not float:
            raise BadMessage(f"a number of {name!r:.60} is {value!r:.60}")
        self.gathering.point(name, step, at, value, self._labels)

    def _read_tensor(self, name: str, plugin: str, step: int, at: float, tensor: Tensor) -> None:
        if plugin in ("", "scalars") and len(numbers := tensor.numbers()) == 1:
            self._point(name, step, at, numbers[0])
        elif plugin == "text":
            text = "\n\n".join(one.decode("utf-8", "replace") for one in tensor.texts)
            self.gathering.media(name, step, at, Text(text, format="markdown"), self._labels)
        elif plugin in ("images", "audio"):
            kind = Image if plugin == "images" else Audio
            # Width and height come before images, and behind each sound its label.
            parts = tensor.texts[2:] if plugin == "images" else tensor.texts[::2]
            for index, data in enumerate(parts):
                labels = self._labels if len(parts) == 1 else (*self._labels, ("index", str(index)))
                self.gathering.media(name, step, at, kind(data), tuple(sorted(labels)))
        elif plugin == "histograms":
            rows = tensor.numbers()
            edges = [*rows[::3], rows[-2]] if rows else []
            self.gathering.media(name, step, at, _binned(edges, rows[2::3]), self._labels)
        else:
            self.gathering.refuse("", f"{plugin or 'tensor'} values")


class Tensor:
    """A ``TensorProto``: numbers or texts."""

    def __init__(self, data: bytes) -> None:
        self._dtype = 0
        self._content = b""
        self._numbers: list[float] = []
        self.texts: list[bytes] = []
        for number, value in fields(data):
            if number == 1:
                self._dtype = value
            elif number == 4:
                self._content = value
            elif number == 8:
                self.texts.append(value)
            elif number in (5, 6):
                self._numbers += [value] if isinstance(value, float) else array("f" if number == 5 else "d", value)
            elif number in (7, 10, 11):
                whole = [value] if isinstance(value, int) else varints(value)
                self._numbers += map(float, map(signed, whole))

    def numbers(self) -> list[float]:
        """Return the numbers in their order, whatever their shape. Raises BadMessage for types that are none."""
        if not self._content:
            return self._numbers
        code = "B" if self._dtype == 10 else {1: "f", 2: "d"}.get(self._dtype) or WHOLE_TYPES.get(self._dtype)
        if code is None:
            raise BadMessage(f"a tensor of the type {self._dtype}")
        size = struct.calcsize(f"<{code}")
        return [float(one) for one in struct.unpack(f"<{len(self._content) // size}{code}", self._content)]


def _plugin(metadata: bytes) -> tuple[str, bytes]:
    """Return the name of the plugin that shows a tag, and the content that it alone understands."""
    found = dict(fields(dict(fields(metadata)).get(1, b"")))
    return found.get(1, b"").decode(), found.get(2, b"")


def _hyperparameters(content: bytes) -> dict[str, Any]:
    """Return the hyperparameters of a session's start (tensorboard/plugins/hparams/plugin_data.proto)."""
    start = dict(fields(content)).get(3, b"")
    pairs = [dict(fields(value)) for number, value in fields(start) if number == 1]
    return {pair.get(1, b"").decode(): _json_value(pair.get(2, b"")) for pair in pairs}


def _json_value(data: bytes) -> Any:
    """Return a ``google.protobuf.Value``."""
    for number, value in fields(data):
        if number == 2:
            return int(value) if value.is_integer() and abs(value) < 2**53 else value
        if number == 3:
            return value.decode("utf-8", "replace")
        if number == 4:
            return bool(value)
        if number == 6:
            return [_json_value(one) for key, one in fields(value) if key == 1]
    return None


def _histogram(data: bytes) -> Histogram:
    """Return a ``HistogramProto``: bins by their upper ends, of which the outer ones may reach to infinity."""
    found = dict(fields(data))
    limits = array("d", found.get(6, b""))
    counts = array("d", found.get(7, b""))
    low, high = found.get(1, 0.0), found.get(2, 0.0)
    edges = [min(low, limits[0]) if limits else low, *limits]
    if limits and limits[0] <= low:  # its first bin ends where the values begin
        edges[0] = math.nextafter(limits[0], -math.inf)
    return _binned(edges, list(counts), high)


def _binned(edges: list[float], counts: list[float], high: float = math.inf) -> Histogram:
    """Return the histogram without empty bins at its ends, which have no bounds where TensorBoard has none either."""
    while len(counts) > 1 and not counts[0]:
        del counts[0], edges[0]
    while len(counts) > 1 and not counts[-1]:
        del counts[-1], edges[-1]
    if edges and abs(edges[-1]) >= 1.7e308:
        edges[-1] = max(high, math.nextafter(edges[-2], math.inf))
    if len(edges) == 2 and edges[0] >= edges[1]:
        edges = [edges[0], math.nextafter(edges[0], math.inf)]
    return Histogram(counts=counts, edges=edges)
