"""The coordinate check of a run whose learning rate muP carries over from another width."""

from __future__ import annotations

from typing import NamedTuple

from runs.metrics.facts import facts_of
from runs.models import Run
from trainyard.contract.facts import COORDINATES, CoordinateFacts

# A power of the width above this is growth: a rate that is right for one width is too high at another. Over two
# doublings a power is known to 0.25; without muP that of the logits is 1.2.
STEEP = 0.35


class Line(NamedTuple):
    name: str
    changes: list[str]
    power: str
    is_steep: bool


class WidthTransfer(NamedTuple):
    widths: list[int]
    lines: list[Line]
    steps: int
    optimizer: str
    sentence: str
    is_steep: bool


def width_transfer(run: Run) -> WidthTransfer | None:
    """None for a run without a base width, and until its rank 0 has reported."""
    model = run.spec.get("task", {}).get("model") or {}
    if not model.get("base_width"):
        return None
    found = facts_of(run.pk, COORDINATES, CoordinateFacts).get(0)
    if found is None or not found.widths:
        return None
    lines = [_line(name, changes, found.powers.get(name, 0.0)) for name, changes in found.changes.items()]
    return WidthTransfer(
        widths=found.widths,
        lines=lines,
        steps=found.steps,
        optimizer=found.optimizer,
        sentence=_sentence(lines, int(model["base_width"]), int(model.get("width") or 0)),
        is_steep=any(one.is_steep for one in lines),
    )


def _line(name: str, changes: list[float], power: float) -> Line:
    words = f"{power:+.2f}".replace("-", "−")
    return Line(name, [f"{change:.3f}" for change in changes], words, power > STEEP)


def _sentence(lines: list[Line], base: int, width: int) -> str:
    steep = [one.name for one in lines if one.is_steep]
    if steep:
        return f"Grows with the width: {', '.join(steep)}. The rate found at width {base} may be too high at {width}."
    return f"No activation grows with the width: the rate found at width {base} holds at {width}."
