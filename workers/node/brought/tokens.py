"""Choice of this machine's join token."""

from __future__ import annotations

from pathlib import Path

from workers.transport.node_config import CannotStart


def token_for(tokens: str | None, machine: int) -> str | None:
    """Return the token of this machine among those of all machines of the attempt. Raises CannotStart."""
    words = (tokens or "").split()
    if not words:
        return None
    if machine >= len(words):
        raise CannotStart(f"There are join tokens for {len(words)} machines, and this is number {machine}, from 0.")
    return words[machine]


def token_in(path: Path) -> str:
    """Return the token that the file holds. Raises CannotStart."""
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise CannotStart(f"The join token cannot be read from {path}: {error}.") from error
