"""Answers of the REST API about people, the audit and compliance, and datasets."""

from typing import Annotated, NotRequired, TypedDict

from trainyard.contract.base import JsonObject, said


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
    versions: Annotated[int, said("values that are under the new key now")]


class Export(TypedDict):
    """A file with what belongs to a person."""

    id: str
    state: Annotated[str, said("waiting, ready or failed")]
    problem: str
    size_bytes: int
    rows: int
    created_at: NotRequired[str]
    ready_at: NotRequired[str | None]
    expires_at: NotRequired[Annotated[str | None, said("then the file goes")]]


class Place(TypedDict):
    """Place of some of a project's data."""

    kind: str
    place: str
    region: Annotated[str, said("empty: not known")]
    bytes: int
    number: Annotated[int, said("of files or rows")]
    is_outside: Annotated[bool, said("not in a region that the project is pinned to")]
    measured_at: NotRequired[str]


class Storage(TypedDict):
    """What a project stores, and where."""

    regions: Annotated[list[str], said("where the project's data may lie; empty: anywhere")]
    used_bytes: Annotated[int, said("without datasets")]
    quota_bytes: int | None
    encrypts_files: NotRequired[
        Annotated[bool, said("whether checkpoints and output files are encrypted before they reach a disk")]
    ]
    storage_key: NotRequired[
        Annotated[int, said("the newest version of its key that is not destroyed; 0: it has none")]
    ]
    sentence: Annotated[str, said("from 80 % of the quota on")]
    items: list[Place]


class Days(TypedDict):
    days: Annotated[dict[str, int | None], said("by kind of data; null: for ever")]


class Removal(TypedDict):
    """Removal of one kind by a change of the days."""

    kind: str
    days: int
    runs: int
    bytes: int


class Removals(TypedDict):
    items: list[Removal]


class AuditRow(TypedDict):
    sequence: Annotated[int, said("its number in the chain, from 1 without gaps")]
    at: str
    actor: Annotated[str, said("empty: nobody was signed in")]
    token: Annotated[str, said("id and name; empty: a session, or none")]
    address: str
    action: str
    object: str
    project: str
    before: Annotated[JsonObject | None, said("by row, the fields that changed; secrets are hidden")]
    after: JsonObject | None
    result: Annotated[str, said("ok, refused: why, or failed: why")]
    repeats: Annotated[int, said("refused tries that were alike and are one row")]
    previous_hash: str
    hash: str
    is_pseudonymous: Annotated[bool, said("somebody who was erased stands in it: its hash is of other words")]


class Fault(TypedDict):
    sequence: Annotated[int, said("the first row that does not fit; 0: the head of the chain")]
    sentence: str


class Verdict(TypedDict):
    """What the check of the chain found."""

    intact: bool
    first: int
    last: int
    rows: int
    hash: Annotated[str, said("of the last row: keep it elsewhere to find a chain that was written anew")]
    fault: Fault | None


class Dataset(TypedDict):
    id: str
    name: str
    project: str
    cluster: str
    source: str
    location: str
    options: JsonObject
    recipe: Annotated[str, said("that reads it")]
    state: Annotated[str, said("waiting, checking, ready or failed")]
    problem: str
    size_bytes: int | None
    num_rows: int | None
    digest: str
    checked_by: Annotated[str | None, said("the node that looked, or looks")]
    checked_at: str | None
    created_by: NotRequired[str | None]
    created_at: NotRequired[str]


class Restored(TypedDict):
    """An attempt that went on from a checkpoint."""

    run: str
    attempt: int | None
    at: NotRequired[str]


class Checkpoint(TypedDict):
    name: NotRequired[Annotated[str, said("its folder's")]]
    step: int
    fence: NotRequired[int]
    attempt: Annotated[int | None, said("the number of the attempt that took it")]
    state: Annotated[str, said("valid, deleted, invalid, missing or late")]
    valid: NotRequired[Annotated[bool, said("whether a training may go on from it")]]
    why: NotRequired[Annotated[str, said("why it is invalid or missing")]]
    bytes: int | None
    num_files: NotRequired[int | None]
    world_size: NotRequired[int | None]
    degrees: NotRequired[dict[str, int]]
    took_s: float | None
    stall_s: NotRequired[float | None]
    key_version: NotRequired[
        Annotated[int, said("of the project's storage key that it is encrypted with; 0: it is not")]
    ]
    at: str
    rank: int | None
    node: str
    deleted_at: NotRequired[str | None]
    restored_by: list[Restored]


class Control(TypedDict):
    title: str
    state: Annotated[str, said("green, red, or grey: there is nothing to measure")]
    sentence: str
    facts: list[str]
    last_green_at: Annotated[str | None, said("null: it was not green so far")]


class Compliance(TypedDict):
    site: str
    measured_at: str
    controls: list[Control]
    public_key: Annotated[str, said("of this server, Ed25519, hexadecimal")]
    signature: NotRequired[Annotated[str, said("of the canonical JSON of the rest, hexadecimal")]]
