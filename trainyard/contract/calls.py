"""Calls between nodes, hosts and the server, a document each way: joining, secrets, files, deleted runs, SSH hosts."""

import re
from enum import StrEnum
from typing import Annotated, NamedTuple

import msgspec

from trainyard.contract.base import Count, Id, Seconds, Whole, WireStruct
from trainyard.contract.limits import MAX_PATH
from trainyard.contract.machines import Inventory

Text = Annotated[str, msgspec.Meta(max_length=2_000)]


class HostVerb(StrEnum):
    LIST = "list"
    START = "start"
    END = "end"  # stop what runs, forget what is over


class HostJobState(StrEnum):
    PLANNED = "planned"  # its folder is there, and nothing was started
    RUNNING = "running"
    OVER = "over"


class HostJob(WireStruct, kw_only=True):
    """One machine's part of an attempt. ``hosts``: of all its parts, in the order of their numbers."""

    attempt: Id
    machine: Annotated[int, msgspec.Meta(ge=0, le=100_000)]  # its number among those of the attempt
    hosts: list[Annotated[str, msgspec.Meta(max_length=400)]]
    state: HostJobState = HostJobState.PLANNED
    started_at: Seconds | None = None
    ended_at: Seconds | None = None
    exit_code: Whole | None = None  # None: nobody saw how it ended
    last_words: Text = ""  # of what it printed, where it failed


class HostQuestion(WireStruct, kw_only=True):
    """``folder`` of the host holds its jobs; ``mark`` tells those of one cluster from others. ``words`` and
    ``variables`` are the command to START; the variables hold a token."""

    verb: HostVerb
    folder: str
    mark: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{1,40}$")]
    job: HostJob | None = None
    words: list[str] = []
    variables: dict[str, str] = {}


class HostAnswer(WireStruct, kw_only=True):
    host: Text
    version: Text
    jobs: list[HostJob]
    problem: Text = ""  # a sentence, where what was asked could not be done


RunId = Annotated[str, msgspec.Meta(max_length=12)]


class RunList(WireStruct):
    runs: Annotated[list[RunId], msgspec.Meta(max_length=1_000)]


class DeletedRuns(WireStruct):
    gone: list[str]


class GivenSecret(WireStruct):
    """Value of one variable of the ranks, or of the file that it names."""

    variable: str
    value: str
    is_file: bool = False


class GivenSecrets(WireStruct):
    secrets: list[GivenSecret] = []


class StorageKey(WireStruct):
    """One version of a project's key for its files."""

    version: int
    key: str  # base64 of 32 bytes


class StorageKeys(WireStruct):
    """Storage keys, as a rank gets them. ``newest`` encrypts what is written; 0: nothing is, and the keys open what
    was."""

    newest: int = 0
    keys: list[StorageKey] = []


def secrets_scope(node_id: str, attempt_id: str) -> str:
    return f"secrets:{node_id}:{attempt_id}"


FilePath = Annotated[str, msgspec.Meta(max_length=MAX_PATH)]
Size = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]


class UploadRequest(WireStruct):
    """A file that comes in parts, or a link to the file ``same_as`` of the run."""

    path: FilePath
    size_bytes: Size
    key: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{16,64}$")]
    same_as: FilePath = ""


class UploadProgress(WireStruct):
    path: str  # where the file stands in the run's output
    offset: int  # where the next part begins
    is_done: bool


class GainedFile(WireStruct):
    path: FilePath
    size_bytes: Size


class GainedFiles(WireStruct):
    """Files of the working folder beside the code. All files are counted, some are named."""

    num_files: Count = 0
    bytes: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0
    files: Annotated[list[GainedFile], msgspec.Meta(max_length=1_000)] = []


NODE_UNKNOWN = "node-unknown"  # the code of the answer to whoever has no key of a node, or no longer
REMOVED_EXIT_CODE = 77  # of a node worker that got it: to start it again is of no use until it has joined again

_PINNED = re.compile(r"(?P<secret>.+)\.(?P<fingerprint>[0-9a-f]{64})")


class JoinToken(NamedTuple):
    """``fingerprint``: SHA-256 of the authority that has signed the server's certificate; empty where none is named."""

    secret: str
    fingerprint: str = ""


def pinned(secret: str, fingerprint: str) -> str:
    """Return the token as it is handed out: with the fingerprint by which a node knows the server."""
    return f"{secret}.{fingerprint}"


def unpinned(token: str) -> JoinToken:
    found = _PINNED.fullmatch(token)
    return JoinToken(found["secret"], found["fingerprint"]) if found else JoinToken(token)


class JoinRequest(WireStruct, kw_only=True):
    """``token`` is a cluster's join token. None: as many ranks at once as the machine is made for."""

    token: Annotated[str, msgspec.Meta(max_length=200)]
    name: Annotated[str, msgspec.Meta(max_length=60)]
    address: Annotated[str, msgspec.Meta(max_length=120)] = ""
    slots: Annotated[int, msgspec.Meta(ge=1, le=1024)] | None = None
    inventory: Inventory = msgspec.field(default_factory=Inventory)
    version: Annotated[str, msgspec.Meta(max_length=40)] = ""
    attempt: Id = ""  # that the node serves alone; its token is bound to it


class JoinAnswer(WireStruct):
    """Identity of the node from now on. ``key`` is shown this once.

    ``redis_tls_url`` is for a node on another machine, where ``redis_url`` is a socket of the server's machine.
    ``authorities`` are the certificates, as PEM, by which the node trusts both; empty: those of its system.
    """

    id: str
    name: str
    key: str
    redis_url: str
    cluster: str
    redis_tls_url: str = ""
    authorities: str = ""
