"""Bodies of the node's REST calls and of the server's answers, apart from the contract's ``Answer``."""

from __future__ import annotations

from trainyard.contract.base import WireStruct
from trainyard.contract.machines import Inventory


class JoinRequest(WireStruct, kw_only=True):
    token: str
    name: str
    address: str
    slots: int | None
    inventory: Inventory
    version: str


class JoinAnswer(WireStruct):
    """What the node is from now on."""

    id: str
    name: str
    key: str
    redis_url: str
    cluster: str


class UploadRequest(WireStruct):
    """A file that comes in parts, or a link to another file of the run."""

    path: str
    size_bytes: int
    key: str
    same_as: str = ""


class UploadProgress(WireStruct):
    offset: int  # where the next part begins
    is_done: bool


class GainedFile(WireStruct):
    path: str
    size_bytes: int


class GainedFiles(WireStruct):
    """What the working folder holds beside the code. All files are counted, some are named."""

    num_files: int = 0
    bytes: int = 0
    files: list[GainedFile] = []


class RunList(WireStruct):
    runs: list[str]


class DeletedRuns(WireStruct):
    gone: list[str]
