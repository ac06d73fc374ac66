"""Stragglers: when a rank counts as one, and what follows."""

from __future__ import annotations

from typing import Literal, NamedTuple

from trainyard.contract.base import SpecDocument
from trainyard.spec.values.fields import Number, Part, field

SlowAction = Literal["notify", "exclude-node"]


class Stragglers(Part):
    """Treatment of a run of which one rank keeps the others waiting."""

    factor: Number = field(
        1.5,
        label="Straggler from",
        help="How many times as long as the other ranks' a rank's own work must take, before the collectives.",
        group="safety",
        advanced=True,
        minimum=1.1,
        maximum=100,
    )
    over: int = field(
        50,
        label="Over steps",
        help="For how many steps in a row a rank must be so slow.",
        group="safety",
        advanced=True,
        minimum=20,
        maximum=1_000,
    )
    action: Literal["notify", "exclude-node"] = field(
        "notify",
        label="When a rank is slow",
        help="notify names it on the run's page and in its history; exclude-node saves a checkpoint and goes on "
        "without its node, where others can take its place.",
        group="safety",
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
