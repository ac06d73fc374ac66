"""From the bytes that a program prints to lines of text."""

from __future__ import annotations

LINE_LIMIT_BYTES = 64 * 1024
LINE_EXTRA_BYTES = 16  # what a line costs beside its text: its time, and the lengths


def split_lines(data: bytes, *, is_final: bool = False, room_bytes: int = 2**62) -> tuple[list[str], int]:
    """Return the whole lines in ``data`` and the number of bytes that they took.

    A line that is not ended yet stays for the next time, unless ``is_final`` or it is over-long. Over-long lines are
    cut into pieces of LINE_LIMIT_BYTES. Of what a progress bar overwrote with carriage returns the last state counts.
    No more lines are taken than have room, the first apart (an invalid byte becomes a character of three).
    """
    lines: list[str] = []
    taken = 0
    while taken < len(data):
        end = data.find(b"\n", taken)
        if end < 0:
            rest = data[taken:]
            if len(rest) < LINE_LIMIT_BYTES and not is_final:
                break
            piece = _piece(rest)
            after = taken + len(piece)
        elif end - taken > LINE_LIMIT_BYTES:
            piece = _piece(data[taken:end])
            after = taken + len(piece)
        else:
            piece, after = data[taken:end], end + 1
        line = _text(piece)
        room_bytes -= len(line.encode()) + LINE_EXTRA_BYTES
        if lines and room_bytes < 0:
            break
        lines.append(line)
        taken = after
    return lines, taken


def _piece(data: bytes) -> bytes:
    """Return the first LINE_LIMIT_BYTES of ``data``, less where that would cut a character of UTF-8 in two."""
    if len(data) <= LINE_LIMIT_BYTES:
        return data
    end = LINE_LIMIT_BYTES
    while end > LINE_LIMIT_BYTES - 4 and data[end] & 0xC0 == 0x80:
        end -= 1
    return data[:end]


def _text(line: bytes) -> str:
    shown = line.rstrip(b"\r").rpartition(b"\r")[2]
    return shown.decode("utf-8", "replace")
