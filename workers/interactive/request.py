"""Request of a supervisor to the relay of a session."""

from trainyard.contract.base import WireStruct
from trainyard.contract.sessions import SessionOrder
from workers.containers.documents import ContainerPlan
from workers.sandbox.process import Sandbox

SESSION = "TRAINYARD_SESSION"  # the variable in which a session's processes have its id


class RelayRequest(WireStruct, kw_only=True):
    """Holds no key: the command is forked from the process that reads it."""

    home: str  # of the node
    folder: str  # in which the command begins
    order: SessionOrder
    environment: dict[str, str]  # of the rank, and RANK_PID
    sandbox: Sandbox
    container: ContainerPlan | None = None  # of the rank: the command runs in there
