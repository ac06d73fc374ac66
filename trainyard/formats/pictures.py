"""Format, width and height of image files, from their first bytes. And PNG from raw pixels.

Nothing here decodes an image. The server asks the same questions of what it is sent.
"""

import struct
import zlib

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
FORMATS = ("png", "jpeg", "webp", "gif")
VIDEO_FORMATS = ("mp4", "webm")
MAX_SIDE = 32_768  # pixels of what may be shown
MAX_PIXELS = 64 * 1024 * 1024  # a browser takes four bytes for each
COLOUR_TYPES = {1: 0, 3: 2, 4: 6}  # PNG's, by the bytes of a pixel: grey, RGB, RGBA
LEVEL = 3  # of zlib: beyond it a photograph gets a few percent smaller and takes twice as long
JPEG_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # the markers of frames, which say how large they are
JPEG_ALONE = frozenset({0x01, *range(0xD0, 0xD8)})  # markers without a length behind them
MAX_SEGMENTS = 2_000  # a photograph has a few dozen before its frame

Size = tuple[int, int]  # width, height in pixels


def format_of(data: bytes) -> str:
    """Return the format that the first bytes say, one of FORMATS, or "" where they say none of these."""
    if data.startswith(PNG_SIGNATURE):
        return "png"
    if data.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    return "gif" if data[:6] in (b"GIF87a", b"GIF89a") else ""


def video_format_of(data: bytes) -> str:
    """Return the format that the first bytes say, one of VIDEO_FORMATS, or "" where they say none of these."""
    if data[4:8] == b"ftyp":
        return "mp4"
    return "webm" if data[:4] == b"\x1a\x45\xdf\xa3" else ""


def size_of(data: bytes) -> Size | None:
    """Return the width and height that the file's head says; None where it says none."""
    read = {"png": _png_size, "jpeg": _jpeg_size, "webp": _webp_size, "gif": _gif_size}.get(format_of(data))
    try:
        size = read(data) if read else None
    except (struct.error, IndexError):  # it ends in its head
        return None
    return size if size and min(size) > 0 else None


def png(pixels: bytes, width: int, height: int, channels: int) -> bytes:
    """Return a PNG of ``pixels``: rows from the top, each of width x channels bytes (channels: 1, 3 or 4)."""
    stride = width * channels
    # Each row as the difference to the one above (filter 2, "up"): what is smooth becomes small numbers.
    rows = _difference(pixels, bytes(stride) + pixels[:-stride])
    filtered = b"".join(b"\x02" + rows[start : start + stride] for start in range(0, len(rows), stride))
    head = struct.pack(">IIBBBBB", width, height, 8, COLOUR_TYPES[channels], 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(filtered, LEVEL)), (b"IEND", b""))
    return PNG_SIGNATURE + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _difference(one: bytes, other: bytes) -> bytes:
    """Return byte minus byte, modulo 256. Pixels come from NumPy, so it is there."""
    import numpy

    left, right = numpy.frombuffer(one, numpy.uint8), numpy.frombuffer(other, numpy.uint8)
    return (left - right).tobytes()


def _png_size(data: bytes) -> Size | None:
    return struct.unpack_from(">II", data, 16) if data[12:16] == b"IHDR" else None


def _gif_size(data: bytes) -> Size:
    width, height = struct.unpack_from("<HH", data, 6)
    return width, height


def _webp_size(data: bytes) -> Size | None:
    kind = data[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if kind == b"VP8L" and data[20] == 0x2F:
        bits = struct.unpack_from("<I", data, 21)[0]
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None


def _jpeg_size(data: bytes) -> Size | None:
    at = 2
    for _ in range(MAX_SEGMENTS):
        if data[at] != 0xFF:
            break
        marker = data[at + 1]
        if marker == 0xFF:  # padding
            at += 1
            continue
        if marker in JPEG_ALONE:
            at += 2
            continue
        length = struct.unpack_from(">H", data, at + 2)[0]
        if marker in JPEG_SIZES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        at += 2 + max(2, length)
    return None
