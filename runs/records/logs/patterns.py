"""Patterns for a search in a log: a text, in any case or exactly, or a regular expression.

RE2 takes time in proportion to what it reads, whatever the expression; texts in any case are its work, too. Full case
folding (ß is ss, İ is i with a dot) is not: where a chunk has letters that fold to something else than one letter of
their own, it is folded whole, in Python.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import re2

from runs.records.logs.chunks import Texts, encoded, lines_with, offset_of
from trainyard.formats.regular_expressions import BadExpression, compiled, compiled_for_lines

MAX_CHARS = 500
MAX_SPANS = 100
ENCODING = re2.Options.Encoding
# The letters beyond ASCII whose folded form has an ASCII letter in it; a test finds that there are no others.
FOLDING = "ßŉſǰẖẗẘẙẚẞ\u212aﬀﬁﬂﬃﬄﬅﬆİ"  # they are these very letters

Spans = list[tuple[int, int]]


class BadPattern(ValueError):
    """A pattern that is no regular expression, or one that is too large."""


class Pattern(Protocol):
    def lines(self, texts: Texts, first: int) -> Iterator[int]:
        """Yield the numbers of the lines from ``first`` on that have it."""

    def spans(self, text: str) -> Spans:
        """Return where it is in one line, in characters."""


def regex(source: str, *, is_case: bool) -> Pattern:
    """Return the pattern of a regular expression in RE2's syntax, sought line by line. Raises BadPattern."""
    try:
        found = compiled_for_lines(source, is_case=is_case)
    except BadExpression as error:
        raise BadPattern(str(error)) from error
    return _Expression(found)


def literal(text: str, *, is_case: bool) -> Pattern:
    """Return the pattern of a text, whose line feeds are what stands for them within a line."""
    text = encoded(text).decode()
    return _Expression(compiled(text, literal=True)) if is_case else _Folded(text.casefold())


@dataclass(frozen=True)
class _Expression:
    compiled: re2._Regexp

    def lines(self, texts: Texts, first: int) -> Iterator[int]:
        return lines_with(lambda data, at: offset_of(self.compiled.search(data, at)), texts, first)

    def spans(self, text: str) -> Spans:
        line = text.encode("utf-8", "replace")
        found: Spans = []
        for match in self.compiled.finditer(line):
            start, end = match.span()
            if start < end:
                found.append((len(line[:start].decode("utf-8", "ignore")), len(line[:end].decode("utf-8", "ignore"))))
            if len(found) == MAX_SPANS:
                break
        return found


@dataclass(frozen=True)
class _Folded:
    """A text in any case; ``text`` is folded."""

    text: str

    @cached_property
    def quick(self) -> re2._Regexp:
        return compiled(self.text, literal=True, case_sensitive=False, encoding=ENCODING.LATIN1)

    def lines(self, texts: Texts, first: int) -> Iterator[int]:
        if self.text.isascii() and (texts.data.isascii() or FOLDING_LETTERS.search(texts.data) is None):
            return lines_with(lambda data, at: offset_of(self.quick.search(data, at)), texts, first)
        if not self.text.isascii() and texts.data.isascii():
            return iter(())
        return self._in_folded(texts, first)

    def _in_folded(self, texts: Texts, first: int) -> Iterator[int]:
        """A folded text has the line feeds that it had."""
        if first >= texts.starts.size:
            return
        folded = texts.data[int(texts.starts[first]) :].decode().casefold()
        counted = 0
        at = folded.find(self.text)
        while at >= 0:
            first += folded.count("\n", counted, at)
            yield first
            counted = folded.find("\n", at)
            at = folded.find(self.text, counted) if counted >= 0 else -1

    def spans(self, text: str) -> Spans:
        folded: list[str] = []
        places: list[int] = []  # of the letter that each folded one comes from
        for place, letter in enumerate(text):
            fold = letter.casefold()
            folded.append(fold)
            places += [place] * len(fold)
        whole = "".join(folded)
        found: Spans = []
        at = whole.find(self.text) if self.text else -1
        while at >= 0 and len(found) < MAX_SPANS:
            end = at + len(self.text)
            found.append((places[at], places[end - 1] + 1))
            at = whole.find(self.text, end)
        return found


FOLDING_LETTERS = compiled("[" + FOLDING + "]")
