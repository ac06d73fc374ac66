"""A change in the form in which it travels: encoded once by who knows it, handed on as it is by everybody else."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from runs.deltas.delta import Delta

MAX_CHARS = 500_000  # some 9,000 points; more than this is better read in buckets
REFETCH = '{"type":"refetch"'

Steps = list[int] | None  # first and last, [] where there are no points, None where they may be anywhere


@dataclass(frozen=True, slots=True)
class Parcel:
    """Everything committed after ``start`` up to and including ``cursor``, as the messages that a socket sends."""

    start: int
    cursor: int
    texts: tuple[str, ...]
    steps: Steps

    @property
    def is_refetch(self) -> bool:
        return self.texts[0].startswith(REFETCH)

    def wire(self) -> dict[str, Any]:
        """Return the parcel as the channel layer carries it; from_wire() is the way back."""
        return {"from": self.start, "cursor": self.cursor, "texts": list(self.texts), "steps": self.steps}


def from_wire(batch: dict[str, Any]) -> Parcel:
    return Parcel(batch["from"], batch["cursor"], tuple(batch["texts"]), batch["steps"])


def parcel_of(change: Delta) -> Parcel:
    """Return what is sent of a change: where that would be too much, no more than the word to read it."""
    steps = change.steps if change.refetch else _steps_of(change)
    texts = tuple(text_of(message) for message in change.messages())
    if sum(map(len, texts)) > MAX_CHARS:
        texts = (refetch(change.start, change.cursor, steps),)
    return Parcel(change.start, change.cursor, texts, steps)


def refetch(start: int, cursor: int, steps: Steps) -> str:
    """Return the message of who was told less than there was."""
    return text_of({"type": "refetch", "from": start, "cursor": cursor, "steps": steps or None})


def both(one: Steps, other: Steps) -> Steps:
    """Return the range that holds both."""
    if one is None or other is None:
        return None
    together = [*one, *other]
    return [min(together), max(together)] if together else []


def text_of(message: dict[str, Any]) -> str:
    return json.dumps(message, separators=(",", ":"), allow_nan=False)


def _steps_of(change: Delta) -> Steps:
    steps = [column["step"] for column in change.series if column["step"]]
    return [min(map(min, steps)), max(map(max, steps))] if steps else []
