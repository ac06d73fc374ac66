"""Characters that a name may not hold: those that nobody sees, and those that turn the direction of the text behind
them.

With them two names look alike, or one reads backwards and takes the words after it along.
"""

import unicodedata

# Controls, formats (marks of direction, zero-width characters, the soft hyphen), separators of lines and paragraphs.
_CATEGORIES = ("Cc", "Cf", "Zl", "Zp")
_BLANK_LETTERS = "\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"  # letters and signs that are drawn as nothing
DIRECTIONS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def is_hidden(char: str) -> bool:
    return unicodedata.category(char) in _CATEGORIES or char in _BLANK_LETTERS


def hidden_in(text: str) -> list[str]:
    """Return the characters of ``text`` that no name may have, in their order."""
    return [char for char in text if is_hidden(char)]


def without_hidden(text: str) -> str:
    return "".join(char for char in text if not is_hidden(char))


def visible(text: str) -> str:
    r"""Return ``text`` with each hidden character as its escape, such as ``\u202e``, so that a sentence can show it."""
    return "".join(_escape(char) if is_hidden(char) else char for char in text)


def _escape(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
