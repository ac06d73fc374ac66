"""What a terminal would show of a line in which a program went back to its beginning, as progress bars do. Pure.

A text that is written over a longer one leaves the longer one's end standing, unless the program erases it. Colours
stay with the letters that they were written with.
"""

from __future__ import annotations

import re

ESCAPE = re.compile(r"\x1b\[([0-9;:]*)([@-~])")
ERASE = re.compile(r"\x1b\[[02]?K")
RESET = "\x1b[0m"
LONGEST_STYLE = 64  # characters of escapes: who writes more without a reset gets the last of them

Cell = tuple[str, str]  # a letter, and the escapes of its style


def shown(line: str) -> str:
    """Return what is seen of ``line`` at its end."""
    if "\r" not in line:
        return line
    cells: list[Cell] = []
    style = ""
    for part in _seen(line.split("\r")):
        style = _write(cells, part, style)
    return _joined(cells)


def _seen(parts: list[str]) -> list[str]:
    """Return the parts of which something may be seen: a bar that is as long as ever hides all its states but one."""
    found: list[str] = []
    width = 0
    for part in reversed(parts):
        length = len(ESCAPE.sub("", part)) if "\x1b" in part else len(part)
        is_erased = "\x1b" in part and ERASE.search(part) is not None
        if length > width or is_erased or not found:
            found.append(part)
            width = max(width, length)
        if is_erased:
            break
    return found[::-1]


def _write(cells: list[Cell], part: str, style: str) -> str:
    """Write from the first column on, and return the style that is left."""
    column = place = 0
    for escape in [*ESCAPE.finditer(part), None]:
        text = part[place : escape.start() if escape else len(part)]
        cells[column : column + len(text)] = [(letter, style) for letter in text]
        column += len(text)
        if escape is None:
            break
        place = escape.end()
        if escape[2] == "K":
            _erase(cells, column, escape[1])
        elif escape[2] == "m":
            style = "" if escape[1] in ("", "0") else _last(style + escape[0])
    return style


def _last(style: str) -> str:
    """Return the last of the escapes, each whole."""
    kept = style[-LONGEST_STYLE:]
    start = kept.find("\x1b")
    return kept[start:] if start >= 0 else ""


def _erase(cells: list[Cell], column: int, how: str) -> None:
    if how in ("", "0", "2"):
        del cells[column:]
    if how in ("1", "2"):
        cells[:column] = [(" ", "")] * column


def _joined(cells: list[Cell]) -> str:
    while cells and cells[-1] == (" ", ""):
        cells.pop()
    out: list[str] = []
    style = ""
    for letter, own in cells:
        if own != style:
            out += [RESET, own] if style else [own]
            style = own
        out.append(letter)
    return "".join(out) + (RESET if style else "")
