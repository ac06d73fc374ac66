"""Frames as a program that is not ours may write them, and as a test reads them back."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from trainyard.spooling.frames import Frame, decode, framed


def encode(payload: Mapping[str, Any]) -> bytes:
    """Return a map of anything as one frame. Raises ValueError for more than MAX_FRAME_BYTES."""
    first = {key: payload[key] for key in ("p", "q", "t") if key in payload}
    return framed(msgspec.msgpack.encode({**first, **payload}))


def frames(data: bytes) -> Iterator[Frame]:
    """Yield the frames that ``data`` is made of. Raises TornFrame or BadFrame where it stops being frames."""
    offset = 0
    while offset < len(data):
        frame, offset = decode(data, offset)
        yield frame
