"""Answers of the REST API about the audit and compliance. ``AuditRow`` names the facts of a row, for exports and
collectors too."""

from typing import Annotated, NotRequired, TypedDict

from msgspec import Meta

from trainyard.contract.base import JsonObject


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
    intact: bool
    first: int
    last: int
    rows: int
    hash: Annotated[str, Meta(description="of the last row: keep it elsewhere to find a chain that was written anew")]
    fault: Fault | None


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
