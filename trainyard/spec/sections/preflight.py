"""Whether a run keeps off nodes that fail a check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

AUTO, ALWAYS, NEVER = "auto", "always", "never"
PreflightMode = Literal["auto", "always", "never"]


def mode_of(spec: Mapping[str, Any]) -> PreflightMode:
    """Return the word of a resolved spec. One without it was submitted before there was the field."""
    return cast(PreflightMode, spec.get("preflight") or AUTO)
