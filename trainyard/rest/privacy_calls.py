"""Calls about what belongs to people, and about where a project's data lie. See ``client``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict
from urllib.parse import quote

from trainyard.rest.answers import Page
from trainyard.rest.client import Client


class Export(TypedDict):
    id: str
    state: str
    problem: str
    size_bytes: int
    rows: int


class Place(TypedDict):
    kind: str
    place: str
    region: str
    bytes: int
    number: int
    is_outside: bool


class Storage(TypedDict):
    regions: list[str]
    used_bytes: int
    quota_bytes: int | None
    sentence: str
    items: list[Place]


class Days(TypedDict):
    days: dict[str, int | None]


class Removal(TypedDict):
    kind: str
    days: int
    runs: int
    bytes: int


class Removals(TypedDict):
    items: list[Removal]


def request_export(client: Client) -> Export:
    return client.call("POST", "me/exports", Export, json={})


def newest_export(client: Client) -> Export | None:
    found = client.call("GET", "me/exports", Page[Export], params={"limit": 1})
    return found["items"][0] if found["items"] else None


def storage(client: Client, project: str) -> Storage:
    return client.call("GET", f"projects/{quote(project, safe='')}/storage", Storage)


def retention(client: Client, project: str) -> Days:
    return client.call("GET", f"projects/{quote(project, safe='')}/retention", Days)


def preview_retention(client: Client, project: str, days: Mapping[str, int | None]) -> Removals:
    body = {"days": dict(days)}
    return client.call("POST", f"projects/{quote(project, safe='')}/retention/preview", Removals, json=body)


def set_retention(client: Client, project: str, days: Mapping[str, int | None]) -> Days:
    return client.call("PUT", f"projects/{quote(project, safe='')}/retention", Days, json={"days": dict(days)})
