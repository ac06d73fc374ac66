"""Secrets of ranks: given to the process that becomes a rank, and masked in its output.

Masking replaces the values of secrets in what ranks print, also where a value comes in two writes."""

import base64
import json
import os
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote

from trainyard.contract.calls import GivenSecret

MASK = b"***"
LEAST_BYTES = 4  # a shorter value is not masked: it would be found in half of all lines
LEAST_LINE_BYTES = 8  # of a line of a longer value
LEAST_CODED = 8  # characters of a value within a longer text in base64 or hexadecimal digits


def patterns_of(values: Iterable[str]) -> list[bytes]:
    """Return what stands for the values in an output, the longest first: as they are, line by line, in an address, in
    JSON, and in base64 and hexadecimal digits, also of a longer text that a value is a part of."""
    found: set[bytes] = set()
    for value in values:
        plain = value.encode(errors="replace")
        found |= {plain, plain.strip(), base64.b64encode(plain), base64.urlsafe_b64encode(plain)}
        found |= {quote(value, safe="").encode(), json.dumps(value)[1:-1].encode(), repr(value)[1:-1].encode()}
        found |= {coded for one in (plain, plain.strip()) for coded in _coded(one) if len(coded) >= LEAST_CODED}
        found |= {line.strip() for line in plain.splitlines() if len(line.strip()) >= LEAST_LINE_BYTES}
    return sorted((one for one in found if len(one) >= LEAST_BYTES), key=lambda one: (-len(one), one))


def _coded(value: bytes) -> Iterator[bytes]:
    """Yield the value in hexadecimal digits, and the characters of base64 that it alone decides: three bytes are four
    characters, so they are others for each of three places where it may begin."""
    yield from (value.hex().encode(), value.hex().upper().encode())
    for before in range(3):
        first, end = -(before * 8 // -6), (before + len(value)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(bytes(before) + value)[first:end]


class Masker:
    """Masks a stream of bytes. What may be the beginning of a value is kept back until the next bytes show."""

    def __init__(self, patterns: list[bytes]) -> None:
        self._inner: dict[int, list[bytes]] = {}  # by byte: those in which it stands, and more behind it
        by_first: dict[bytes, list[bytes]] = {}  # else the machine tries each pattern at each letter
        for pattern in patterns:
            by_first.setdefault(pattern[:1], []).append(re.escape(pattern[1:]))
            for byte in set(pattern[:-1]):
                self._inner.setdefault(byte, []).append(pattern)
        groups = (re.escape(first) + b"(?:" + b"|".join(rests) + b")" for first, rests in by_first.items())
        self._any = re.compile(b"|".join(groups)) if patterns else None
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
        for pattern in self._inner.get(text[-1], ()) if text else ():
            place = max(start, len(text) - len(pattern) + 1)
            while (place := text.find(pattern[:1], place, edge)) >= 0:
                if pattern.startswith(text[place:]):
                    edge = place
                    break
                place += 1
        return edge


def masked_text(text: str, values: Iterable[str]) -> str:
    masker = Masker(patterns_of(values))
    return (masker.mask(text.encode(errors="surrogatepass")) + masker.flush()).decode(errors="replace")


# Gives a rank its secrets, in the process that becomes it: as variables, or in files that are in memory alone.


def variables_of(secrets: Iterable[GivenSecret]) -> dict[str, str]:
    """Return the variables of this process. A file is one of memory, which ends with the process and its children."""
    return {one.variable: _file_of(one) if one.is_file else one.value for one in secrets}


def _file_of(secret: GivenSecret) -> str:
    descriptor = os.memfd_create(f"secret-{secret.variable}", 0)  # 0: it stays open in a program that is started
    with os.fdopen(descriptor, "wb", closefd=False) as file:
        file.write(secret.value.encode())
    os.fchmod(descriptor, 0o400)
    return f"/proc/{os.getpid()}/fd/{descriptor}"
