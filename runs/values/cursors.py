"""Cursors of lists: a JSON value as a word that an address takes."""

import base64
import json
from typing import Any


def cursor_of(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def value_of(cursor: str) -> Any:
    """Return the value that cursor_of() was given. Raises ValueError and RecursionError."""
    return json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
