"""Replaces the values of secrets in what ranks print, also where a value comes in two writes."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from urllib.parse import quote

MASK = b"***"
LEAST_BYTES = 4  # a shorter value is not masked: it would be found in half of all lines
LEAST_LINE_BYTES = 8  # of a line of a longer value


def patterns_of(values: Iterable[str]) -> list[bytes]:
    """Return what stands for the values in an output, the longest first: as they are, line by line, in base64, in an
    address and in JSON."""
    found: set[bytes] = set()
    for value in values:
        plain = value.encode(errors="replace")
        found |= {plain, plain.strip(), base64.b64encode(plain), base64.urlsafe_b64encode(plain)}
        found |= {quote(value, safe="").encode(), json.dumps(value)[1:-1].encode(), repr(value)[1:-1].encode()}
        found |= {line.strip() for line in plain.splitlines() if len(line.strip()) >= LEAST_LINE_BYTES}
    return sorted((one for one in found if len(one) >= LEAST_BYTES), key=lambda one: (-len(one), one))


class Masker:
    """Masks a stream of bytes. What may be the beginning of a value is kept back until the next bytes show."""

    def __init__(self, patterns: list[bytes]) -> None:
        self._patterns = patterns
        self._any = re.compile(b"|".join(map(re.escape, patterns))) if patterns else None
        self._kept = b""

    def mask(self, data: bytes) -> bytes:
        """Return what may go out."""
        if self._any is None:
            return data
        text = self._kept + data
        edge, place, parts = self._edge(text, 0), 0, []
        for found in self._any.finditer(text):
            if found.start() >= edge:  # a longer value may begin here
                break
            parts += [text[place : found.start()], MASK]
            place = found.end()
        if place > edge:
            edge = self._edge(text, place)
        self._kept = text[edge:]
        return b"".join([*parts, text[place:edge]])

    def flush(self) -> bytes:
        """Return what was kept back, since nothing comes after it."""
        kept, self._kept = self._kept, b""
        return self._any.sub(MASK, kept) if self._any is not None else kept

    def _edge(self, text: bytes, start: int) -> int:
        """Return where the longest end of the text begins that is the beginning of a value, and not all of it."""
        edge = len(text)
        for pattern in self._patterns:
            place = max(start, len(text) - len(pattern) + 1)
            while (place := text.find(pattern[:1], place, edge)) >= 0:
                if pattern.startswith(text[place:]):
                    edge = place
                    break
                place += 1
        return edge


def masked_text(text: str, values: Iterable[str]) -> str:
    """Return the text without the values."""
    masker = Masker(patterns_of(values))
    data = text.encode(errors="surrogatepass")
    return (masker.mask(data) + masker.flush()).decode(errors="replace")
