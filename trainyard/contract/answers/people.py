"""Answers of the REST API about people, the audit and compliance, and datasets."""

from typing import Annotated, NotRequired, TypedDict

from msgspec import Meta

from trainyard.contract.base import JsonObject


class Secret(TypedDict):
    """A secret without its value."""

    name: str
    version: int
    created_by: str | None
    created_at: NotRequired[str]
    changed_at: str
    used_at: str | None


class Rotated(TypedDict):
    sentence: str
    versions: Annotated[int, Meta(description="values that are under the new key now")]


class Export(TypedDict):
    """A file with what belongs to a person."""

    id: str
    state: Annotated[str, Meta(description="waiting, ready or failed")]
    problem: str
    size_bytes: int
    rows: int
    created_at: NotRequired[str]
    ready_at: NotRequired[str | None]
    expires_at: NotRequired[Annotated[str | None, Meta(description="then the file goes")]]


class Place(TypedDict):
    """Place of some of a project's data."""

    kind: str
    place: str
    region: Annotated[str, Meta(description="empty: not known")]
    bytes: int
    number: Annotated[int, Meta(description="of files or rows")]
    is_outside: Annotated[bool, Meta(description="not in a region that the project is pinned to")]
    measured_at: NotRequired[str]


class Storage(TypedDict):
    """What a project stores, and where."""

    regions: Annotated[list[str], Meta(description="where the project's data may lie; empty: anywhere")]
    used_bytes: Annotated[int, Meta(description="without datasets")]
    quota_bytes: int | None
    encrypts_files: NotRequired[
        Annotated[bool, Meta(description="whether checkpoints and output files are encrypted before they reach a disk")]
    ]
    storage_key: NotRequired[
        Annotated[int, Meta(description="the newest version of its key that is not destroyed; 0: it has none")]
    ]
    sentence: Annotated[str, Meta(description="from 80 % of the quota on")]
    items: list[Place]


class Days(TypedDict):
    days: Annotated[dict[str, int | None], Meta(description="by kind of data; null: for ever")]


class Removal(TypedDict):
    """Removal of one kind by a change of the days."""

    kind: str
    days: int
    runs: int
    bytes: int


class Removals(TypedDict):
    items: list[Removal]


class AuditRow(TypedDict):
    sequence: Annotated[int, Meta(description="its number in the chain, from 1 without gaps")]
    at: str
    actor: Annotated[str, Meta(description="empty: nobody was signed in")]
    token: Annotated[str, Meta(description="id and name; empty: a session, or none")]
    address: str
    action: str
    object: str
    project: str
    before: Annotated[JsonObject | None, Meta(description="by row, the fields that changed; secrets are hidden")]
    after: JsonObject | None
    result: Annotated[str, Meta(description="ok, refused: why, or failed: why")]
    repeats: Annotated[int, Meta(description="refused tries that were alike and are one row")]
    previous_hash: str
    hash: str
    is_pseudonymous: Annotated[
        bool, Meta(description="somebody who was erased stands in it: its hash is of other words")
    ]


class Fault(TypedDict):
    sequence: Annotated[int, Meta(description="the first row that does not fit; 0: the head of the chain")]
    sentence: str


class Verdict(TypedDict):
    """What the check of the chain found."""

    intact: bool
    first: int
    last: int
    rows: int
    hash: Annotated[str, Meta(description="of the last row: keep it elsewhere to find a chain that was written anew")]
    fault: Fault | None


class Dataset(TypedDict):
    id: str
    name: str
    project: str
    cluster: str
    source: str
    location: str
    options: JsonObject
    recipe: Annotated[str, Meta(description="that reads it")]
    state: Annotated[str, Meta(description="waiting, checking, ready or failed")]
    problem: str
    size_bytes: int | None
    num_rows: int | None
    digest: str
    checked_by: Annotated[str | None, Meta(description="the node that looked, or looks")]
    checked_at: str | None
    created_by: NotRequired[str | None]
    created_at: NotRequired[str]


class Restored(TypedDict):
    """An attempt that went on from a checkpoint."""

    run: str
    attempt: int | None
    at: NotRequired[str]


class Checkpoint(TypedDict):
    name: NotRequired[Annotated[str, Meta(description="its folder's")]]
    step: int
    fence: NotRequired[int]
    attempt: Annotated[int | None, Meta(description="the number of the attempt that took it")]
    state: Annotated[str, Meta(description="valid, deleted, invalid, missing or late")]
    valid: NotRequired[Annotated[bool, Meta(description="whether a training may go on from it")]]
    why: NotRequired[Annotated[str, Meta(description="why it is invalid or missing")]]
    bytes: int | None
    num_files: NotRequired[int | None]
    world_size: NotRequired[int | None]
    degrees: NotRequired[dict[str, int]]
    took_s: float | None
    stall_s: NotRequired[float | None]
    key_version: NotRequired[
        Annotated[int, Meta(description="of the project's storage key that it is encrypted with; 0: it is not")]
    ]
    at: str
    rank: int | None
    node: str
    deleted_at: NotRequired[str | None]
    restored_by: list[Restored]


class Control(TypedDict):
    title: str
    state: Annotated[str, Meta(description="green, red, or grey: there is nothing to measure")]
    sentence: str
    facts: list[str]
    last_green_at: Annotated[str | None, Meta(description="null: it was not green so far")]


class Compliance(TypedDict):
    site: str
    measured_at: str
    controls: list[Control]
    public_key: Annotated[str, Meta(description="of this server, Ed25519, hexadecimal")]
    signature: NotRequired[Annotated[str, Meta(description="of the canonical JSON of the rest, hexadecimal")]]
