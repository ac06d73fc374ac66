"""Failure of an installer, as one sentence of its own words."""

from __future__ import annotations

import re
from collections.abc import Sequence

MAX_CHARACTERS = 600
_DECORATION = re.compile(r"^[\s×x│╰─▶├>|-]+(?=\S)|^(error|ERROR|critical|fatal): *", re.IGNORECASE)
_CAUSE = re.compile(r"[:.]? (cause|Caused by): ", re.IGNORECASE)
_BEGINS = re.compile(r"^\s*×|^(error|ERROR|critical|fatal)\b", re.IGNORECASE)
_OURS = re.compile(r"^\$ |ended with exit code \d+$")


def failure_of(lines: Sequence[str]) -> str:
    """Return the installer's last error among the lines that it printed; empty where there is none."""
    own = [line for line in lines if line.strip() and not _OURS.search(line)]
    starts = [place for place, line in enumerate(own) if _BEGINS.match(line)]
    if not starts:
        return _clipped(own[-1].strip()) if own else ""
    # An error of several lines begins with a sign of its own; pip repeats the word on each line.
    first = starts[-1]
    while first > 0 and first - 1 in starts and not own[first].lstrip().startswith("×"):
        first -= 1
    words = [_DECORATION.sub("", line.strip()) for line in own[first:]]
    return _clipped(_CAUSE.sub(": ", " ".join(" ".join(words).split())))


def _clipped(text: str) -> str:
    text = text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"
    return text if text.endswith((".", "…", "!")) else f"{text}."
