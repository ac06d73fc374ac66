"""What the REST API answers about secrets; see ``answers``."""

from __future__ import annotations

from typing import TypedDict


class Secret(TypedDict):
    name: str
    version: int
    created_by: str | None
    changed_at: str
    used_at: str | None


class RotatedKey(TypedDict):
    sentence: str
    versions: int
