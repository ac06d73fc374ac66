"""From the bytes that a program prints to lines of text."""

from __future__ import annotations

from workers.supervisor.records.terminal import shown

LINE_LIMIT_BYTES = 64 * 1024
LINE_EXTRA_BYTES = 16  # what a line costs beside its text: its time, and the lengths


def split_lines(
    data: bytes, *, is_final: bool = False, takes_state: bool = False, room_bytes: int = 2**62
) -> tuple[list[str], int]:
    """Return the whole lines in ``data`` and the number of bytes that they took.

    A line that is not ended yet stays for the next time, unless ``is_final`` or it is over-long. Over-long lines are
    cut into pieces of LINE_LIMIT_BYTES. Of what a progress bar overwrote with carriage returns that counts which a
    terminal would show at the end. ``takes_state``: what it shows of a line that is not ended yet is a line, too.
    No more lines are taken than have room, the first apart (an invalid byte becomes a character of three).
    """
    lines: list[str] = []
    taken = 0
    while taken < len(data):
        end = data.find(b"\n", taken)
        if end < 0:
            rest = data[taken:]
            if is_final or len(rest) >= LINE_LIMIT_BYTES:
                piece = _piece(rest, is_whole=is_final)
            elif takes_state:
                piece, takes_state = _state(rest), False
            else:
                break
            after = taken + len(piece)
        elif end - taken > LINE_LIMIT_BYTES:
            piece = _piece(data[taken:end], is_whole=True)
            after = taken + len(piece)
        else:
            piece, after = data[taken:end], end + 1
        if after == taken:
            break
        line = shown(piece.decode("utf-8", "replace"))
        room_bytes -= len(line.encode()) + LINE_EXTRA_BYTES
        if lines and room_bytes < 0:
            break
        lines.append(line)
        taken = after
    return lines, taken


def _piece(data: bytes, *, is_whole: bool) -> bytes:
    """Return the first LINE_LIMIT_BYTES of ``data``, less where that would cut in two what belongs together: what a
    program wrote behind a carriage return, or a character of UTF-8."""
    if len(data) <= LINE_LIMIT_BYTES and is_whole:
        return data
    piece = data[:LINE_LIMIT_BYTES]
    if (start := piece.rfind(b"\r")) > 0:
        return piece[:start]
    for back in range(1, min(4, len(piece))):
        if piece[-back] >= 0xC0:  # a character begins here; it has as many bytes as its first one says
            return piece if back >= _length(piece[-back]) else piece[:-back]
    return piece


def _length(first: int) -> int:
    return 4 if first >= 0xF0 else 3 if first >= 0xE0 else 2


def _state(rest: bytes) -> bytes:
    """Return a line's bytes up to its last carriage return: what is behind it may be half of what is to come. Where it
    has none but at its beginning it is taken whole."""
    start = rest.rfind(b"\r")
    piece = rest[:start] if start > 0 else rest
    return piece if shown(piece.decode("utf-8", "replace")).strip() else b""
