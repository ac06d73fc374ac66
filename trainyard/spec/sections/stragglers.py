"""Stragglers: when a rank counts as one, and what follows."""

from __future__ import annotations

from typing import Literal, NamedTuple

from trainyard.contract.base import SpecDocument
from trainyard.spec.values.fields import Number, Part, safety_field

SlowAction = Literal["notify", "exclude-node"]


class Stragglers(Part):
    """Treatment of a run of which one rank keeps the others waiting."""

    factor: Number = safety_field(
        1.5,
        "Straggler from",
        "How many times as long as the other ranks' a rank's own work must take, before the collectives.",
        advanced=True,
        within=(1.1, 100),
    )
    over: int = safety_field(
        50, "Over steps", "For how many steps in a row a rank must be so slow.", advanced=True, within=(20, 1_000)
    )
    action: Literal["notify", "exclude-node"] = safety_field(
        "notify",
        "When a rank is slow",
        "notify names it on the run's page and in its history; exclude-node saves a checkpoint and goes on "
        "without its node, where others can take its place.",
        advanced=True,
    )


class StragglerRules(NamedTuple):
    """The section of a resolved spec. One without the section has the defaults."""

    factor: float = 1.5
    over: int = 50
    action: SlowAction = "notify"

    @classmethod
    def of(cls, spec: SpecDocument) -> StragglerRules:
        section = spec.get("stragglers") or {}
        return cls(float(section.get("factor", 1.5)), int(section.get("over", 50)), section.get("action") or "notify")
