"""Hangs and stragglers: when a run counts as hung, when a rank as a straggler, and what follows."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from pydantic import BeforeValidator, Field, WithJsonSchema

from trainyard.contract.base import SpecDocument
from trainyard.contract.causes import HangAction
from trainyard.spec.problems import show
from trainyard.spec.values.durations import duration, seconds_of
from trainyard.spec.values.fields import Number, Part, more_safety

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

    after: After = more_safety(
        AUTO,
        "Hung after",
        "How long a run may make no step, such as 90s. auto is 10 times the run's own median step, and at least "
        "60s. Checkpoints, validations, waits for data and the time before the first step have longer limits.",
    )
    action: Literal["notify", "restart", "stop"] = more_safety(
        "restart",
        "When hung",
        "notify says so and lets it be; restart ends the ranks, and restarts decides what follows; stop ends the run.",
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


class Stragglers(Part):
    """Treatment of a run of which one rank keeps the others waiting."""

    factor: Number = more_safety(
        1.5,
        "Straggler from",
        "How many times as long as the other ranks' a rank's own work must take, before the collectives.",
        within=(1.1, 100),
    )
    over: int = more_safety(50, "Over steps", "For how many steps in a row a rank must be so slow.", within=(20, 1_000))
    action: Literal["notify", "exclude-node"] = more_safety(
        "notify",
        "When a rank is slow",
        "notify names it on the run's page and in its history; exclude-node saves a checkpoint and goes on "
        "without its node, where others can take its place.",
    )

    @classmethod
    def of(cls, spec: SpecDocument) -> Stragglers:
        """Return the section of a resolved spec. One without the section has the defaults."""
        return cls.model_construct(**spec.get("stragglers") or {})
