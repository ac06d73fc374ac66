"""Media as ranks would send them: payloads of frames of the kind ``media``, each as small as it may be."""

from __future__ import annotations

import struct
from typing import Any

import msgpack

from trainyard.formats.pictures import png
from trainyard.formats.sounds import wav

EDGES, COUNTS = (0.0, 1.0, 2.0), (3.0, 5.0)
PIXEL = png(b"\x10\x20\x30" * 6, 2, 3, 3)
CLIP = b"\x00\x00\x00\x18ftypmp42" + bytes(40)  # the head of an MP4
BEEP = wav(struct.pack("<8000h", *(range(-4000, 4000))), 16_000, 1)


def image(step: int = 0, name: str = "samples", data: bytes = PIXEL, **changes: Any) -> dict[str, Any]:
    meta = {"caption": "a cat", "width": 2, "height": 3, "format": "png"}
    return _media("image", step, name, meta, data, changes)


def audio(step: int = 0, name: str = "speech", data: bytes = BEEP, **changes: Any) -> dict[str, Any]:
    return _media("audio", step, name, {"caption": "a beep", "format": "wav"}, data, changes)


def video(step: int = 0, name: str = "clip", data: bytes = CLIP, **changes: Any) -> dict[str, Any]:
    return _media("video", step, name, {"caption": "a walk", "format": "webm"}, data, changes)


def histogram(
    step: int = 0,
    name: str = "weights",
    edges: tuple[float, ...] = EDGES,
    counts: tuple[float, ...] = COUNTS,
    **changes: Any,
) -> dict[str, Any]:
    data = struct.pack(f"<{len(edges) + len(counts)}d", *edges, *counts)
    return _media("histogram", step, name, {"bins": len(counts)}, data, changes)


def text(step: int = 0, name: str = "story", said: str = "once upon a time", **changes: Any) -> dict[str, Any]:
    return _media("text", step, name, {"chars": len(said), "format": "plain"}, said.encode(), changes)


def table(
    step: int = 0, name: str = "confusion", rows: Any = ((1, "x"), (None, 0.5)), **changes: Any
) -> dict[str, Any]:
    return _media("table", step, name, {"columns": ["a", "b"], "rows": len(rows)}, msgpack.packb(rows), changes)


def _media(
    kind: str, step: int, name: str, meta: dict[str, Any], data: bytes, changes: dict[str, Any]
) -> dict[str, Any]:
    said = {"name": name, "labels": {}, "step": step, "at": 1000.0 + step, "kind": kind, "meta": meta, "data": data}
    return {**said, **changes}
