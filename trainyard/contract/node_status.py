"""The up document: which attempts a node has, and how its machine is."""

import contextlib
from typing import Annotated

import msgspec

from trainyard.contract.base import (
    BadDocument,
    Count,
    Id,
    JsonObject,
    Name,
    Seconds,
    Sentence,
    Whole,
    WireStruct,
    convert,
)
from trainyard.contract.machines import Health, Inventory, SelfCheck

MAX_ATTEMPTS = 10_000  # that have a folder on one node
MAX_FILES = 100  # of each kind in an OutputState

Files = Annotated[dict[Name, Whole], msgspec.Meta(max_length=MAX_FILES)]


class OutputState(WireStruct):
    """The output files of an attempt on their way to the server. Some are named, all are counted."""

    problem: Sentence = ""  # why what is to be sent waits
    num_refused: Count = 0
    refused: Annotated[dict[Name, Sentence], msgspec.Meta(max_length=MAX_FILES)] = {}  # why, by file: these never come
    # All is sent that is sent unasked. The attempt may still not be done: what was refused, or is left in the working
    # folder, waits for a person's decision.
    is_sent: bool = False
    num_pending: Count = 0
    pending: Files = {}  # bytes, by file
    sending: Files = {}  # bytes that have gone, by file


class ListedAttempt(WireStruct):
    """An attempt that has a folder on the node."""

    run: Id
    fence: Whole
    phase: Name = ""
    # It is over, and all of its records and output have arrived. Control lists it no more, takes no file of it, and the
    # node forgets its folder a day later.
    is_done: bool = False
    is_stopped: bool = False  # a signal has stopped its supervisor: the node ends it with its ranks 15 s later
    output: OutputState | None = None


class MemoryStatus(WireStruct):
    """States of runs in the node's memory."""

    limit_bytes: Whole = 0
    problem: Sentence = ""  # why it keeps none
    runs: Annotated[dict[Id, Whole], msgspec.Meta(max_length=MAX_ATTEMPTS)] = {}  # bytes, by run


class NodeStatus(WireStruct, kw_only=True):
    """Document that a node worker sends every second."""

    at: Seconds
    node: Id
    name: Name = ""
    version: Annotated[str, msgspec.Meta(max_length=40)] = ""
    address: Annotated[str, msgspec.Meta(max_length=120)] = ""
    pid: Whole | None = None
    inventory: Inventory | None = None
    health: Health | None = None
    self_check: SelfCheck | None = None
    attempts: Annotated[dict[Id, ListedAttempt], msgspec.Meta(max_length=MAX_ATTEMPTS)] = {}  # by attempt id
    troubles: Annotated[dict[Id, str], msgspec.Meta(max_length=MAX_ATTEMPTS)] = {}  # why an attempt is not prepared yet
    inspecting: list[Id] = []  # questions about datasets that are worked on, or whose answer waits
    memory: MemoryStatus | None = None
    # Of a spare node, by run: why the run could not begin there as quickly as a restart; empty where it could.
    standby: Annotated[dict[Id, Sentence], msgspec.Meta(max_length=MAX_ATTEMPTS)] = {}
    is_leaving: bool = False  # the node worker is being stopped: nothing more is to be placed here


def lenient_status(document: JsonObject) -> tuple[NodeStatus, dict[str, str]]:
    """Return the status, and why an inventory, health or check of itself was left out: a node whose sensors are wrong
    stays in contact.
    Raises BadDocument where the rest has another shape."""
    with contextlib.suppress(BadDocument):
        return convert(document, NodeStatus), {}
    kept, left_out = dict(document), {}
    for section, kind in (("inventory", Inventory), ("health", Health), ("self_check", SelfCheck)):
        try:
            if kept.get(section) is not None:
                convert(kept[section], kind)
        except BadDocument as error:
            left_out[section] = str(error)
            del kept[section]
    return convert(kept, NodeStatus), left_out
