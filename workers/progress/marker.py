"""A page of memory that a rank shares with its supervisor. To write a number into it is all that a step costs.

The supervisor maps it before it forks the rank. It is in no file, so that neither a full disk nor the rank's script can
break it. An interpreter that is started anew (a cold rank) does not have it: its sampler copies its own page to a file.

Cold ranks load this file in an interpreter that has none of our packages: it uses Python's own library alone.
"""

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

SIZE = 16_384
TEXT_AT = 64  # bytes; in front of it are words of 8 bytes each
STEP, PHASE, ENTERED, _, LENGTH = range(5)  # one was the count of samples
# The phases of a step, and what stands before and between steps.
PHASES = ("", "data", "forward", "backward", "communication", "optimizer", "checkpoint", "validation", "compilation")
CODES = {name: code for code, name in enumerate(PHASES)}
VALIDATION = "validation"


class Marks(NamedTuple):
    """Marks in the memory. ``entered`` counts the collectives of all process groups."""

    step: int
    phase: str
    entered: int
    text: bytes


class Marker:
    room = SIZE - TEXT_AT  # bytes of a text

    def __init__(self, memory: mmap.mmap | bytearray) -> None:
        self._bytes = memoryview(memory)
        self.words = self._bytes[:TEXT_AT].cast("q")

    def begin_step(self, step: int) -> None:
        self.words[STEP] = step

    @contextmanager
    def within(self, phase: str) -> Iterator[None]:
        """Be in the phase for the block, and then again in the phase before."""
        before = self.words[PHASE]
        self.words[PHASE] = CODES[phase]
        try:
            yield
        finally:
            self.words[PHASE] = before

    def set_entered(self, number: int) -> bool:
        """Record how many collectives the rank has entered. Returns whether they are more than before."""
        has_changed: bool = self.words[ENTERED] != number
        self.words[ENTERED] = number
        return has_changed

    def to_bytes(self) -> bytes:
        return bytes(self._bytes)

    def write_text(self, text: bytes) -> None:
        """Replace the text, which a reader sees whole or not at all."""
        self.words[LENGTH] = 0
        self._bytes[TEXT_AT : TEXT_AT + len(text)] = text
        self.words[LENGTH] = len(text)

    def read(self) -> Marks:
        words = self.words.tolist()
        length = words[LENGTH]
        text = bytes(self._bytes[TEXT_AT : TEXT_AT + length]) if 0 < length <= self.room else b""
        phase = PHASES[words[PHASE]] if 0 <= words[PHASE] < len(PHASES) else ""
        return Marks(words[STEP], phase, words[ENTERED], text)


_own = Marker(bytearray(SIZE))  # of a process that no supervisor started


def own() -> Marker:
    return _own


def share(memory: mmap.mmap) -> None:
    """Let this process mark its progress in ``memory``."""
    global _own
    _own = Marker(memory)
