"""Description of a rank, as its sampler writes it and its supervisor reads it."""

import msgspec

from trainyard.contract.base import prepared
from trainyard.contract.reports import MAX_STACK_CHARACTERS, PendingCollective


class Description(msgspec.Struct):
    """JSON in the marker's text. The sampler writes it with Python's own library alone: see ``sampler.describe``."""

    collective: PendingCollective | None = None
    entered: dict[str, int] = {}  # msgspec makes a new one for each
    line: str = ""
    stack: str = ""
    is_compiling: bool = False


def described(text: bytes) -> Description:
    """Return what the rank's sampler wrote. The rank may be a user's: what is no description is an empty one."""
    try:
        found = msgspec.json.decode(text, type=prepared(Description)) if text else Description()
    except msgspec.DecodeError:
        return Description()
    found.stack = found.stack[:MAX_STACK_CHARACTERS]
    return found
