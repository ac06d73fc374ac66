"""The checkpoint RUN@STEP that a spec goes on from."""

from typing import NamedTuple

from trainyard.contract.base import SpecDocument


class Origin(NamedTuple):
    run: str
    step: int

    def __str__(self) -> str:
        return f"{self.run}@{self.step}"


def origin_of(spec: SpecDocument) -> Origin | None:
    """Return what a resolved spec names in ``checkpoint.restore``; None where it starts anew."""
    run, _, step = str((spec.get("checkpoint") or {}).get("restore") or "").partition("@")
    return Origin(run, int(step)) if run and step.isdecimal() else None
