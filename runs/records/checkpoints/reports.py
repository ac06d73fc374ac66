"""What a rank reports of a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SAVED, DELETED, INVALID, RESTORED, ANEW, OFF = ("saved", "deleted", "invalid", "restored", "anew", "off")


@dataclass(frozen=True, slots=True)
class CheckpointReport:
    """``run`` is empty and ``fence`` None where the rank reports on its own run; ``facts`` are columns of the row."""

    state: str
    step: int | None = None
    fence: int | None = None
    run: str = ""
    at: float | None = None
    why: str = ""
    is_missing: bool = False  # what is called invalid was only not found: another node may have it
    memory: str = ""  # names of nodes: it is about a state in their memory, which has no row
    facts: dict[str, Any] = field(default_factory=dict)
