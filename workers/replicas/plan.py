"""Plan for a rank's states in memory: TRAINYARD_REPLICAS in its environment."""

from collections.abc import Mapping

from trainyard.contract.base import WireStruct, decode

VARIABLE = "TRAINYARD_REPLICAS"


class PeerNode(WireStruct):
    """The node that keeps copies of what this one takes: where it receives them."""

    node: str  # name
    address: str
    port: int


class ReplicaPlan(WireStruct, kw_only=True):
    """``folder`` is the run's own in the node's memory, empty where the node has none; ``problem`` says why."""

    node: str = ""  # name
    folder: str = ""
    limit_bytes: int = 0  # of the node's whole memory folder
    problem: str = ""
    # States of attempts above this fence may be gone on from; None: none.
    restore_above: int | None = None
    restore_until_step: int | None = None  # no state of a later step; None: of any
    attempt: str = ""
    key: str = ""  # of the attempt, for what is sent to the peer
    peer: PeerNode | None = None  # None: there is no other node that takes states


def read_plan(environment: Mapping[str, str]) -> ReplicaPlan | None:
    """Return the plan; None where nobody gave one."""
    text = environment.get(VARIABLE)
    return decode(text, ReplicaPlan) if text else None
