"""Limits that both sides of a border hold to, and how much a node may say. What is beyond is cut, and the text says how
much that was: a report that is refused would look like silence."""

from typing import Any

from trainyard.contract.base import JsonObject

MAX_OFFERED = 5  # checkpoints in one Go
OUTPUT_NAMED = 5  # files of each kind that an OutputState names
UPLOAD_PART_BYTES = 8 * 1024 * 1024  # of a file that is larger; smaller files go whole
MAX_PATH = 500  # characters of the name of an output file
UNSENT_KEPT_S = 30 * 86_400.0  # how long after its end a node keeps an attempt's files and the server takes them
CONTACT_LOST_S = 5.0
DEFAULT_LEASE_S = 600.0
MAX_FACTS_BYTES = 60_000  # of what a node finds in a dataset
STREAM_LIMIT_ENTRIES = 20_000
STREAM_LIMIT_BYTES = 256 * 1024 * 1024
MAX_SECRET_BYTES = 64 * 1024
MAX_SLOTS = 1024  # of one node
MAX_SENTENCE = 4_000  # characters
MAX_TEXT = 20_000
MAX_ENTRIES = 1_000  # of one list or mapping
MAX_EVIDENCE = 512 * 1024  # characters of all texts
ROOM = 60  # for the words about the rest


def cut(text: str, at_most: int = MAX_SENTENCE, *, keep_end: bool = False) -> str:
    """Return the text with at most so many characters (at least ROOM), the words about the rest counted."""
    if len(text) <= at_most:
        return text
    kept = at_most - ROOM
    rest = f"({len(text) - kept:,} more characters)"
    return f"{rest} …{text[len(text) - kept :]}" if keep_end else f"{text[:kept]}… {rest}"


def bounded(evidence: JsonObject) -> JsonObject:
    """Return the evidence of a reason without what is beyond the limits above."""
    room = MAX_EVIDENCE

    def part(value: Any) -> Any:
        nonlocal room
        if isinstance(value, str):
            value = cut(value, min(MAX_TEXT, room))
            room -= len(value)
        elif isinstance(value, list):
            more = len(value) - MAX_ENTRIES
            value = [part(one) for one in value[:MAX_ENTRIES] if room >= ROOM]
            if more > 0 and value and isinstance(value[0], str):
                value[-1] = f"… ({more + 1:,} more lines)"
        elif isinstance(value, dict):
            value = {cut(name, 200): part(one) for name, one in list(value.items())[:MAX_ENTRIES] if room >= ROOM}
        room -= 8
        return value

    found: JsonObject = part(evidence)
    return found
