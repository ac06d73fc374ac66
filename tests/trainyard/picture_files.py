"""Small pictures as files of each format, and the pixels of a PNG."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from trainyard.formats.pictures import PNG_SIGNATURE

GIF = b"GIF89a\x03\x00\x02\x00\x00\x00\x00;"
WEBP = {
    "VP8L": b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f" + ((3 - 1) | (2 - 1) << 14).to_bytes(4, "little") + b"\0",
    "VP8X": b"RIFF\x1a\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x02\0\0\x01\0\0",
    "VP8 ": b"RIFF\x1a\0\0\0WEBPVP8 \x0a\0\0\0\0\0\0\x9d\x01\x2a\x03\0\x02\0",
}
JPEG = (
    b"\xff\xd8\xff\xe0\x00\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0\xff"
    b"\xff\xc2\x00\x0b\x08\x00\x02\x00\x03\x01\x01\x11\0\xff\xd9"
)


def decoded(data: bytes) -> np.ndarray[Any, Any]:
    """Read back a PNG as this SDK writes it."""
    assert data.startswith(PNG_SIGNATURE)
    chunks, at = {}, 8
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert zlib.crc32(kind + body) == int.from_bytes(data[at + 8 + length : at + 12 + length], "big")
        chunks[kind] = body
        at += 12 + length
    head = chunks[b"IHDR"]
    width, height, channels = *(int.from_bytes(head[at : at + 4], "big") for at in (0, 4)), {0: 1, 2: 3, 6: 4}[head[9]]
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + width * channels)
    assert (rows[:, 0] == 2).all()
    return np.cumsum(rows[:, 1:], axis=0, dtype=np.uint8).reshape(height, width, channels)
