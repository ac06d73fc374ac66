"""Words for people that several places need."""

from collections.abc import Sequence


def listed(names: Sequence[str], *, at_most: int | None = None, last: str = "and") -> str:
    """Return the names as a person lists them: ``a, b and c``. Of more than ``at_most``: ``a, b and 3 more``."""
    if at_most is not None and len(names) > at_most:
        names = [*names[:at_most], f"{len(names) - at_most} more"]
    return "".join(names) if len(names) < 2 else f"{', '.join(names[:-1])} {last} {names[-1]}"
