"""What a record of kind ``facts`` may say: what has another type raises Poison, and unknown keys are ignored."""

from __future__ import annotations

import json
import re
from typing import Any

from runs.ingest.validation.checks import Poison, storable, time_of
from runs.metrics.facts import Told

MAX_BYTES = 60 * 1024
NAME = re.compile(r"[a-z0-9_-]{1,40}")


def told(payload: dict[str, Any]) -> Told:
    """Return the facts. Raises Poison."""
    name, data = payload.get("name"), payload.get("data")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise Poison("facts have a name of a-z, 0-9, - and _")
    if not isinstance(data, dict):
        raise Poison("facts are a map")
    try:
        text = json.dumps(data, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise Poison(f"facts are what JSON can hold: {error!s:.200}") from None
    if len(text) > MAX_BYTES:
        raise Poison(f"facts have at most {MAX_BYTES} bytes, not {len(text)}")
    return Told(name, json.loads(storable(text.replace("\\u0000", "\\ufffd"))), time_of(payload.get("at")))
