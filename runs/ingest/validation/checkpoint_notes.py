"""What a record of kind ``checkpoint`` may say: what has another type raises Poison, and unknown keys are ignored."""

from __future__ import annotations

import math
import re
from typing import Any

from runs.checkpoints.reports import OFF, STATES, Note
from runs.ingest.validation.checks import MAX_SEQUENCE, Poison, storable

MAX_WHY = 1_000  # characters; what is beyond is cut off
MAX_DEGREES = 16
MAX_AXIS = 40
MAX_INTEGER = 2**31 - 1
YEAR_3000 = 32_503_680_000.0
MAX_SECONDS = 1e9
RUN = re.compile(r"[a-z0-9]{0,12}")


def checkpoint(payload: dict[str, Any]) -> Note:
    """Return the note. Raises Poison."""
    state = payload.get("state")
    if state not in STATES:
        raise Poison(f"a checkpoint is {', '.join(STATES)}")
    step = _integer(payload, "step", MAX_SEQUENCE)
    if step is None and state != OFF:
        raise Poison("a checkpoint has a step")
    run = payload.get("run", "")
    if not isinstance(run, str) or not RUN.fullmatch(run):
        raise Poison("a checkpoint's run is the id of one")
    why = payload.get("why", "")
    if not isinstance(why, str):
        raise Poison("why is a text")
    is_missing = payload.get("missing", False)
    if not isinstance(is_missing, bool):
        raise Poison("missing is true or false")
    return Note(
        state,
        step=step,
        fence=_integer(payload, "fence", MAX_INTEGER),
        run=run,
        at=_seconds(payload, "at", YEAR_3000),
        why=storable(why)[:MAX_WHY],
        is_missing=is_missing,
        facts={
            "bytes": _integer(payload, "bytes", MAX_SEQUENCE),
            "num_files": _integer(payload, "num_files", MAX_INTEGER),
            "world_size": _integer(payload, "world_size", MAX_INTEGER),
            "degrees": _degrees(payload.get("degrees", {})),
            "took_s": _seconds(payload, "took_s", MAX_SECONDS),
            "stall_s": _seconds(payload, "stall_s", MAX_SECONDS),
        },
    )


def _integer(payload: dict[str, Any], name: str, at_most: int) -> int | None:
    value = payload.get(name)
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= at_most:
        raise Poison(f"a checkpoint's {name} is a whole number from 0 to {at_most}")
    return value


def _seconds(payload: dict[str, Any], name: str, at_most: float) -> float | None:
    value = payload.get(name)
    if value is None:
        return None
    if type(value) not in (int, float) or not math.isfinite(value) or not 0 <= value <= at_most:
        raise Poison(f"a checkpoint's {name} is a number of seconds from 0 to {at_most:g}")
    return float(value)


def _degrees(value: object) -> dict[str, int]:
    if not isinstance(value, dict) or len(value) > MAX_DEGREES:
        raise Poison(f"a checkpoint's degrees are a map of at most {MAX_DEGREES}")
    for axis, number in value.items():
        if (
            not isinstance(axis, str)
            or len(axis) > MAX_AXIS
            or type(number) is not int
            or not 0 < number <= MAX_INTEGER
        ):
            raise Poison("a checkpoint's degrees are numbers of ranks by axis")
    return {storable(axis): number for axis, number in value.items()}
