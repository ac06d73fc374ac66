"""State of an attempt on one node."""

from dataclasses import dataclass

from runs.values.status import OVER, Phase
from trainyard.contract.limits import CONTACT_LOST_S, DEFAULT_LEASE_S
from trainyard.contract.reports import AttemptReport

MISSING_S = 3.0  # a node that answers may need this long to list what it has just begun, or to report what ended


@dataclass(frozen=True)
class PlacementState:
    """One node's part of the attempt. ``silent_s`` is about its reports, ``is_answering`` about its node worker."""

    node: str
    phase: Phase
    report: AttemptReport
    silent_s: float
    is_answering: bool
    is_listed: bool
    num_ranks: int = 1
    first_rank: int = 0
    lease_s: float = DEFAULT_LEASE_S
    unheard_s: float = 0.0  # since its last report, also where control was away meanwhile
    is_stopped: bool = False  # its node sees that a signal has stopped its supervisor: it is not lost

    @property
    def is_missing(self) -> bool:
        """The node answers and has nothing of what it once reported."""
        begun = self.phase not in (Phase.PREPARING, *OVER)
        return begun and self.is_answering and not self.is_listed and self.silent_s > MISSING_S

    @property
    def is_over_lease(self) -> bool:
        """Out of contact for so long that its ranks have ended by themselves: its supervisor reported that it would."""
        return self.phase not in OVER and self.report.is_leased and self.silent_s > self.lease_s

    @property
    def is_over(self) -> bool:
        return self.phase in OVER or self.is_missing or self.is_over_lease

    @property
    def is_silent(self) -> bool:
        """Out of contact. Before the first report the node worker's own word is enough."""
        if self.is_over or (self.phase == Phase.PREPARING and self.is_answering):
            return False
        return self.silent_s > CONTACT_LOST_S
