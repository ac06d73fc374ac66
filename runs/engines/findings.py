"""What `trainyard doctor` found: one line a step, and what to mend where a step failed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """``is_fine`` None: it could not be found out, and is no fault. ``advice`` says what to mend."""

    step: str
    is_fine: bool | None
    sentence: str
    advice: str = ""
