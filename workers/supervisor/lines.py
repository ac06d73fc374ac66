"""From the bytes that a program prints to lines of text."""

from __future__ import annotations

LINE_LIMIT_BYTES = 64 * 1024


def split_lines(data: bytes, *, is_final: bool = False) -> tuple[list[str], int]:
    """Return the whole lines in ``data`` and the number of bytes that they took.

    A line that is not ended yet stays for the next time, unless ``is_final`` or it is over-long. Over-long lines are
    cut into pieces of LINE_LIMIT_BYTES. Of what a progress bar overwrote with carriage returns the last state counts.
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
            lines.append(_text(piece))
            taken += len(piece)
        elif end - taken > LINE_LIMIT_BYTES:
            piece = _piece(data[taken:end])
            lines.append(_text(piece))
            taken += len(piece)
        else:
            lines.append(_text(data[taken:end]))
            taken = end + 1
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
