"""The language of filters: from a text to what it asks for. Pure.

any   = all {"or" all}
all   = one {["and"] one}
one   = "not" one | "(" any ")" | field operator value | field "in" "(" value {"," value} ")" | word
"""

import re
from dataclasses import dataclass
from typing import NoReturn

MAX_LENGTH = 2_000  # characters
MAX_TERMS = 64  # words and values
MAX_DEPTH = 16  # of brackets and `not`
KEYWORDS = ("and", "or", "not", "in")
_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<operator>!=|<=|>=|=|<|>|~)
    |(?P<mark>[(),])
    |(?P<word>[^\s()"'=!<>~,][^\s()"=!<>~,]*)""",
    re.VERBOSE | re.DOTALL,
)


class FilterError(ValueError):
    """The text is no filter. ``position`` is the character, from 0, at which ``message`` looks."""

    def __init__(self, message: str, position: int, path: str = "filter") -> None:
        super().__init__(message)
        self.message = message
        self.position = position
        self.path = path  # of the parameter that holds the text


@dataclass(frozen=True, slots=True)
class FilterText:
    """A word or a quoted text, without its quotes."""

    text: str
    position: int
    is_quoted: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """Name, a tag or the id holds the text."""

    word: FilterText


@dataclass(frozen=True, slots=True)
class FieldComparison:
    """The field stands so to one of the values; the operator ``in`` alone has several."""

    field: FilterText
    operator: str
    values: tuple[FilterText, ...]


@dataclass(frozen=True, slots=True)
class Not:
    part: "Expression"


@dataclass(frozen=True, slots=True)
class All:
    parts: "tuple[Expression, ...]"


@dataclass(frozen=True, slots=True)
class Either:
    parts: "tuple[Expression, ...]"


Expression = Word | FieldComparison | Not | All | Either


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # text, operator, mark, word, end
    text: str
    position: int


def parse(text: str) -> Expression | None:
    """Return what the text asks for, None for an empty one. Raises FilterError."""
    if len(text) > MAX_LENGTH:
        raise FilterError(f"A filter has at most {MAX_LENGTH:,} characters; this one has {len(text):,}.", MAX_LENGTH)
    if unsafe := re.search("[\0\ud800-\udfff]", text):
        raise FilterError("A filter has no NUL and no half characters.", unsafe.start())
    tokens = _tokens(text)
    return None if tokens[0].kind == "end" else _Parser(tokens).whole()


def _tokens(text: str) -> list[_Token]:
    found, position = [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            sign = text[position]
            words = "! stands before = alone: != is “is not”." if sign == "!" else f"This text has no closing {sign}."
            raise FilterError(words, position)
        if match.lastgroup != "space":
            found.append(_Token(str(match.lastgroup), match.group(), position))
        position = match.end()
    return [*found, _Token("end", "", len(text))]


class _Parser:
    """A method for each rule of the grammar; ``depth`` is that of brackets and ``not`` around it."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._num_terms = 0

    def whole(self) -> Expression:
        found = self._either(0)
        token = self._next
        if token.text == ")":
            self._refuse("This ) closes nothing.")
        if token.kind != "end":
            self._refuse(f"Here and, or, or the end is expected, not {token.text}. Put a text with signs in quotes.")
        return found

    def _either(self, depth: int) -> Expression:
        parts = [self._all(depth)]
        while self._takes_word("or"):
            parts.append(self._all(depth))
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def _all(self, depth: int) -> Expression:
        parts = [self._one(depth)]
        while self._takes_word("and") or self._begins_one():
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _begins_one(self) -> bool:
        token = self._next
        return token.kind == "text" or token.text == "(" or (token.kind == "word" and not self._is_word("or", "in"))

    def _one(self, depth: int) -> Expression:
        if depth > MAX_DEPTH:
            self._refuse(f"Brackets and not are nested at most {MAX_DEPTH} deep.")
        if self._takes_word("not"):
            return Not(self._one(depth + 1))
        if self._takes("("):
            found = self._either(depth + 1)
            if not self._takes(")"):
                self._refuse("Here a ) is expected.")
            return found
        if self._next.kind not in ("word", "text") or self._is_word(*KEYWORDS):
            self._refuse("Here a field or a word is expected, such as status = FAILED.")
        return self._term(self._text())

    def _term(self, name: FilterText) -> Expression:
        if self._next.kind == "operator":
            return FieldComparison(name, self._take().text, (self._value(),))
        if self._takes_word("in"):
            if not self._takes("("):
                self._refuse("After in comes a list in brackets, such as (FAILED, LOST).")
            values = [self._value()]
            while self._takes(","):
                values.append(self._value())
            if not self._takes(")"):
                self._refuse("Here a comma or a ) is expected.")
            return FieldComparison(name, "in", tuple(values))
        self._count(name.position)
        return Word(name)

    def _value(self) -> FilterText:
        if self._next.kind not in ("word", "text"):
            self._refuse("Here a value is expected, such as 0.01, FAILED or a text in quotes.")
        self._count(self._next.position)
        return self._text()

    def _text(self) -> FilterText:
        token = self._take()
        if token.kind == "text":
            return FilterText(
                re.sub(r"\\(.)", r"\1", token.text[1:-1], flags=re.DOTALL), token.position, is_quoted=True
            )
        return FilterText(token.text, token.position)

    def _count(self, position: int) -> None:
        self._num_terms += 1
        if self._num_terms > MAX_TERMS:
            raise FilterError(f"A filter has at most {MAX_TERMS} words and values.", position)

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _takes(self, mark: str) -> bool:
        is_next = self._next.kind == "mark" and self._next.text == mark
        self._at += is_next
        return is_next

    def _is_word(self, *words: str) -> bool:
        return self._next.kind == "word" and self._next.text.lower() in words

    def _takes_word(self, word: str) -> bool:
        is_next = self._is_word(word)
        self._at += is_next
        return is_next

    def _refuse(self, message: str) -> NoReturn:
        raise FilterError(message, self._next.position)
