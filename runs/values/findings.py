"""What watching a live run has found: JSON columns of attempts and runs, by type. Imports nothing of Django."""

from __future__ import annotations

from typing import Literal

import msgspec

from trainyard.contract.base import WireStruct


class SlowRank(WireStruct, kw_only=True):
    """A rank that slows the others down, as it was when it was looked at last."""

    rank: int
    node: str = ""  # name
    node_id: str = ""
    times: float = 1.0  # as slow as the others in ``phase``
    phase: str = ""  # empty: in several
    excess_s: float = 0.0  # that it takes longer, in each step
    since_step: int = 0
    last_step: int = 0
    at: float = 0.0  # Unix seconds: when it was found
    was_excluded: bool = False  # the policy has acted on it


class MetricAlarm(WireStruct, kw_only=True):
    """Values of a series that broke a rule: one for values in a row."""

    metric: str
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    kind: Literal["nan", "spike"] = "nan"
    first_step: int = 0
    last_step: int = 0
    num_values: int = 1
    value: float | None = None  # the first; None: it is no finite number
    word: str = ""  # of a value that is no finite number: NaN, Infinity or -Infinity
    usual: float | None = None  # the median before it
    at: float = 0.0  # Unix seconds, by the rank
    action: str = "notify"
    sentence: str = ""


class Rewind(WireStruct, kw_only=True):
    """A decision to go back to ``to_step`` and to leave out the batches of some steps, both ends included.

    It is about the attempts up to ``fence``: their checkpoints behind ``to_step`` are not used any more, and the steps
    are counted as the attempt with that fence did.
    """

    fence: int
    to_step: int
    first: int
    last: int
    at: float = 0.0  # Unix seconds
    by: str = ""  # who asked for it; empty: a rule
    rule: str = ""  # the metric of the rule


class Rewinds(msgspec.Struct):
    """The rewinds of a run, oldest first."""

    entries: list[Rewind] = msgspec.field(default_factory=list)

    def allows(self, fence: int, step: int) -> bool:
        """Whether a checkpoint of the run is on the way that the training takes now."""
        return not any(fence <= one.fence and step > one.to_step for one in self.entries)
