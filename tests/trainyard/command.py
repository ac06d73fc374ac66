"""What the command line answers to a test that calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Ended(NamedTuple):
    code: int
    out: str
    err: str


Trainyard = Callable[..., Ended]
