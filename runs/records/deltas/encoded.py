"""A delta as it travels: encoded once by the process that has it, passed on unchanged by all others."""

from __future__ import annotations

import json
from dataclasses import dataclass

from runs.records.deltas.delta import Delta
from runs.serving.broadcast import Message

MAX_CHARS = 500_000  # some 9,000 points; more than this is better read in buckets
REFETCH = '{"type":"refetch"'

Steps = list[int] | None  # first and last, [] where there are no points, None where they may be anywhere


@dataclass(frozen=True, slots=True)
class EncodedDelta:
    """Everything committed after ``start`` up to and including ``cursor``, as the messages that a socket sends."""

    start: int
    cursor: int
    texts: tuple[str, ...]
    steps: Steps

    @property
    def is_refetch(self) -> bool:
        return self.texts[0].startswith(REFETCH)

    def wire(self) -> Message:
        """Return the delta as the channel layer carries it; from_wire() is the way back."""
        return {"from": self.start, "cursor": self.cursor, "texts": list(self.texts), "steps": self.steps}


def from_wire(batch: Message) -> EncodedDelta:
    return EncodedDelta(batch["from"], batch["cursor"], tuple(batch["texts"]), batch["steps"])


def encode(change: Delta) -> EncodedDelta:
    """Return the encoded change; where it is too large to send, only a message to refetch."""
    steps = change.steps if change.refetch else _steps_of(change)
    texts = tuple(message_text(message) for message in change.messages())
    if sum(map(len, texts)) > MAX_CHARS:
        texts = (refetch(change.start, change.cursor, steps),)
    return EncodedDelta(change.start, change.cursor, texts, steps)


def refetch(start: int, cursor: int, steps: Steps) -> str:
    """Return the message to a client that was sent less than there was."""
    return message_text({"type": "refetch", "from": start, "cursor": cursor, "steps": steps or None})


def both(one: Steps, other: Steps) -> Steps:
    """Return the range that holds both."""
    if one is None or other is None:
        return None
    together = [*one, *other]
    return [min(together), max(together)] if together else []


def message_text(message: object) -> str:
    return json.dumps(message, separators=(",", ":"), allow_nan=False)


def _steps_of(change: Delta) -> Steps:
    steps = [column["step"] for column in change.series if column["step"]]
    return [min(map(min, steps)), max(map(max, steps))] if steps else []
