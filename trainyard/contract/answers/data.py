"""Answers of the REST API about datasets and checkpoints. The client does not need what is ``NotRequired``: an older
server may lack it."""

from typing import Annotated, NotRequired, TypedDict

from msgspec import Meta

from trainyard.contract.base import JsonObject


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
