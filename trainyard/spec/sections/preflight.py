"""Preflight: a run may keep off nodes that fail a check."""

from typing import Literal, cast

from trainyard.contract.base import SpecDocument

AUTO, ALWAYS, NEVER = "auto", "always", "never"
PreflightMode = Literal["auto", "always", "never"]


def mode_of(spec: SpecDocument) -> PreflightMode:
    """Return the word of a resolved spec. One without it was submitted before there was the field."""
    return cast(PreflightMode, spec.get("preflight") or AUTO)
