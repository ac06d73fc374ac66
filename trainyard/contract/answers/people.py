"""Answers of the REST API about secrets, the data of people, and the places of a project's data. The client does not
need what is ``NotRequired``: an older server may lack it."""

from typing import Annotated, NotRequired, TypedDict

from msgspec import Meta


class Secret(TypedDict):
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
    days: dict[str, int | None]


class Removal(TypedDict):
    """Removal of one kind by a change of the days."""

    kind: str
    days: int
    runs: int
    bytes: int


class Removals(TypedDict):
    items: list[Removal]
