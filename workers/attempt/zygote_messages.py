"""Messages between the node worker and its warm process: one line of JSON each."""

from trainyard.contract.base import WireStruct
from trainyard.contract.orders import Locked
from workers.sandbox.node import Isolation


class StartRequest(WireStruct):
    """The node worker's wish for a supervisor of the attempt in ``folder``."""

    folder: str
    home: str  # of the node: the key is read there, once the ranks' processes are forked
    isolation: Isolation
    address: str
    cache: str  # the project's
    checkpoints: str  # the folder under which each run has its own
    memory: str = ""  # the node's folder for states in memory; empty where it has none…
    memory_limit_bytes: int = 0
    memory_problem: str = ""  # …and why
    secrets: Locked | None = None  # opened once the ranks' processes are forked: the warm process never knows them


class Ready(WireStruct):
    """The warm process has imported everything."""

    ready: int  # its pid
    threads: int


class Forked(WireStruct):
    """The answer to a request: the reaper's pid, or why there is none."""

    pid: int = 0
    error: str = ""
