"""A run as event files: what TensorBoard, and all else that reads them, shows of it."""

import itertools
import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from trainyard.contract.base import JsonObject
from trainyard.doors.protobuf import FIXED32, SCALAR, field, key
from trainyard.doors.tensorboard.event_files import record
from trainyard.formats.parameters import leaves

STRING = 7  # of the types of tensors
STARTED, ENDED = "_hparams_/session_start_info", "_hparams_/session_end_info"


class EventFile(AbstractContextManager["EventFile"]):
    """The event file of one folder. Written again it is the same file, so that nothing is there twice."""

    def __init__(self, folder: Path, at: float) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / f"events.out.tfevents.{max(0, int(at)):010d}.trainyard").open("wb")
        self._file.write(record(field(1, float(at)) + field(3, "brain.Event:2")))

    def add(self, tag: str, step: int, at: float, value: bytes) -> None:
        """Write one value: what a function below made of it. Raises OSError."""
        summary = field(1, field(1, tag) + value)
        self._file.write(record(field(1, at) + field(2, step) + field(5, summary)))

    def __exit__(self, *_: object) -> None:
        self._file.close()


def scalar(value: float) -> bytes:
    """A number of 32 bits, as TensorBoard's own writers have it."""
    try:
        packed = SCALAR.pack(value)
    except OverflowError:
        packed = SCALAR.pack(math.copysign(math.inf, value))
    return key(2, FIXED32) + packed


def text(value: str) -> bytes:
    return _metadata("text") + field(8, field(1, STRING) + field(2, field(2, field(1, 1))) + field(8, value))


def image(width: int, height: int, data: bytes) -> bytes:
    return field(4, field(1, height) + field(2, width) + field(3, 3) + field(4, data))


def histogram(edges: Sequence[float], counts: Sequence[float]) -> bytes:
    middles = [(low + high) / 2 for low, high in itertools.pairwise(edges)]
    sums = [sum(count * middle**power for middle, count in zip(middles, counts, strict=True)) for power in (0, 1, 2)]
    numbers = [float(edges[0]), float(edges[-1]), *map(float, sums)]
    packed = [b"".join(field(0, float(one))[1:] for one in many) for many in (edges[1:], counts)]
    head = b"".join(field(number, one) for number, one in enumerate(numbers, 1))
    return field(5, head + field(6, packed[0]) + field(7, packed[1]))


def hyperparameters(config: JsonObject) -> bytes:
    """The start of a session, which has the configuration: names are ``a.b`` for ``b`` in ``a``."""
    given = [(name, one) for name, one in leaves(config) if one != {}]
    values = b"".join(field(1, field(1, name) + field(2, _value(one))) for name, one in given)
    return _metadata("hparams", field(3, values))


def session_end() -> bytes:
    return _metadata("hparams", field(4, field(1, 1)))


def _value(one: Any) -> bytes:
    """Return a ``google.protobuf.Value``."""
    if isinstance(one, bool):
        return field(4, int(one))
    return field(2, float(one)) if isinstance(one, int | float) else field(3, str(one))


def _metadata(plugin: str, content: bytes = b"") -> bytes:
    return field(9, field(1, field(1, plugin) + field(2, content)))
