"""Whether a run keeps off nodes that fail a check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

AUTO, NEVER = "auto", "never"
PreflightMode = Literal["auto", "never"]


def mode_of(spec: Mapping[str, Any]) -> PreflightMode:
    """Return the word of a resolved spec. One without it was submitted before there was the field."""
    return cast(PreflightMode, spec.get("preflight") or AUTO)
