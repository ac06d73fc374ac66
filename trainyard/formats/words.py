"""Words for people that several places need."""

import re
from collections.abc import Sequence

ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")  # a terminal's codes


def counted(number: int, word: str) -> str:
    """Return ``1 node`` or ``2 nodes``."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def listed(names: Sequence[str], *, at_most: int | None = None, last: str = "and") -> str:
    """Return the names as a person lists them: ``a, b and c``. Of more than ``at_most``: ``a, b and 3 more``."""
    if at_most is not None and len(names) > at_most:
        names = [*names[:at_most], f"{len(names) - at_most} more"]
    return "".join(names) if len(names) < 2 else f"{', '.join(names[:-1])} {last} {names[-1]}"
