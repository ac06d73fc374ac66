"""The result of one check of a node, as it is stored, shown and served. Imports nothing of Django."""

from __future__ import annotations

from enum import StrEnum

from trainyard.contract.base import WireStruct


class CheckState(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"  # nothing is placed there for which it matters


class Check(WireStruct, kw_only=True):
    """One check: a sentence, and the number behind it beside the limit that it was held against."""

    name: str
    state: CheckState
    sentence: str
    node: str  # name
    peer: str = ""  # name of another node
    value: float | None = None
    limit: float | None = None
    unit: str = ""  # of both: bytes, s, B/s
