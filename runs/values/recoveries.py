"""What is kept of failures and restarts: JSON columns of attempts and runs, by type. Imports nothing of Django."""

from __future__ import annotations

import msgspec

from trainyard.contract.base import WireStruct
from trainyard.contract.causes import CauseClass


class LeftOutNode(WireStruct, kw_only=True):
    """A node that a run is kept away from for a while."""

    node: str  # id
    name: str
    why: str
    until: float  # Unix seconds
    is_excluded: bool = True  # False: it is taken where there is no other
    cause: str = ""  # the class of the failure, where it was one


class AttemptFailure(WireStruct, kw_only=True):
    """How an attempt failed, as the policy of restarts reads it. Times are Unix seconds."""

    fence: int
    cause: CauseClass
    at: float
    signature: str = ""  # equal where two attempts failed in the same way; empty where that proves nothing
    node: str = ""  # id of the node where it happened
    node_name: str = ""
    broke_at: float = 0.0  # when it happened, as far as anybody can know
    step: int | None = None  # the last that it reached
    kept_step: int | None = None  # of the newest checkpoint by then
    memory_step: int | None = None  # of the newest state that ranks had reported to be in memory
    left_out: list[LeftOutNode] = msgspec.field(default_factory=list)  # by rules of the log

    @property
    def newest_step(self) -> int | None:
        """The step of the newest state that a restart can go on from."""
        return max((one for one in (self.kept_step, self.memory_step) if one is not None), default=None)


class Recovery(WireStruct, kw_only=True):
    """The restarts of a run since a person started it last. ``number`` 0: there was none."""

    failed_fence: int = 0  # of the attempt that failed last
    after_fence: int = 0  # attempts up to this one were started before, and do not count
    number: int = 0  # of the last restart, among those that count
    total: int = 0  # all restarts, also those that do not count any more
    max: int = 0
    cause: CauseClass = CauseClass.UNKNOWN
    failed_at: float = 0.0  # when it was known
    broke_at: float = 0.0  # when it happened, as far as anybody can know; 0: as failed_at
    due_at: float = 0.0
    step: int | None = None  # the last before the failure
    from_step: int | None = None  # of the checkpoint that was there to go on from; None: it starts anew
    # What the last restart went on from: "storage", or "the memory of" nodes. "memory" until its ranks have reported.
    source: str = ""
    left_out: list[LeftOutNode] = msgspec.field(default_factory=list)
    back_after_s: float | None = None  # from the failure to the first step that had not been trained before

    def left_out_at(self, now: float) -> list[LeftOutNode]:
        return [one for one in self.left_out if one.until > now]
