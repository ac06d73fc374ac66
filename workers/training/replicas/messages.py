"""What ranks leave for each other on the board while a state goes into memory."""

from __future__ import annotations

from trainyard.contract.base import WireStruct


class PartMessage(WireStruct):
    """From each rank to rank 0: the note of its part, or why there is none."""

    note: str = ""  # a ``PartNote`` as JSON
    peer_problem: str = ""  # why the part does not lie on a second node
    why: str = ""
    is_final: bool = False  # nor will there be a part of any later state


class StateMessage(WireStruct):
    """From rank 0 to all: the manifest of the state, which is whole, or why it is given up."""

    manifest: str = ""
    stall_s: float = 0.0  # for which training stood still, on the slowest rank
    num_copies: int = 0
    why: str = ""
    is_final: bool = False
