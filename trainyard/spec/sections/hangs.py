"""Hangs: when a run counts as hung, and what follows."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from pydantic import BeforeValidator, Field, WithJsonSchema

from trainyard.contract.base import SpecDocument
from trainyard.contract.causes import HangAction
from trainyard.spec.problems import show
from trainyard.spec.values.durations import duration, seconds_of
from trainyard.spec.values.fields import Part, safety_field

AUTO = "auto"
SHORTEST_S, LONGEST_S = 1.0, 7 * 86_400.0


def _after(value: object) -> object:
    if value == AUTO:
        return value
    if type(value) in (int, float):
        value = str(value)
    if not isinstance(value, str):
        raise ValueError(f"must be auto or a length of time such as 90s, not {show(value)}")
    seconds = seconds_of(value)
    if not SHORTEST_S <= seconds <= LONGEST_S:
        raise ValueError(f"must be auto, or from {duration(SHORTEST_S)} to {duration(LONGEST_S)}, not {show(value)}")
    return duration(seconds)


After = Annotated[
    str,
    Field(max_length=40),
    BeforeValidator(_after),
    WithJsonSchema({"anyOf": [{"type": "string", "maxLength": 40}, {"type": "number", "minimum": SHORTEST_S}]}),
]


class Hangs(Part):
    """Treatment of a run that makes no step any more."""

    after: After = safety_field(
        AUTO,
        "Hung after",
        "How long a run may make no step, such as 90s. auto is 10 times the run's own median step, and at least "
        "60s. Checkpoints, validations, waits for data and the time before the first step have longer limits.",
        advanced=True,
    )
    action: Literal["notify", "restart", "stop"] = safety_field(
        "restart",
        "When hung",
        "notify says so and lets it be; restart ends the ranks, and restarts decides what follows; stop ends the run.",
        advanced=True,
    )


class HangRules(NamedTuple):
    """The section of a resolved spec. ``after_s`` is None for auto."""

    after_s: float | None = None
    action: HangAction = "restart"

    @classmethod
    def of(cls, spec: SpecDocument) -> HangRules:
        section = spec.get("hangs") or {}
        after = section.get("after") or AUTO
        return cls(None if after == AUTO else seconds_of(after), section.get("action") or "restart")
