"""What the REST API answers about secrets and the audit; see ``answers``."""

from __future__ import annotations

from typing import TypedDict

from trainyard.contract.base import JsonObject


class Secret(TypedDict):
    name: str
    version: int
    created_by: str | None
    changed_at: str
    used_at: str | None


class RotatedKey(TypedDict):
    sentence: str
    versions: int


class Act(TypedDict):
    sequence: int
    at: str
    actor: str
    token: str
    address: str
    action: str
    object: str
    project: str
    before: JsonObject | None
    after: JsonObject | None
    result: str


class Fault(TypedDict):
    sequence: int
    sentence: str


class Verdict(TypedDict):
    intact: bool
    first: int
    last: int
    rows: int
    hash: str
    fault: Fault | None
