"""Calls about what belongs to people, and about where a project's data lie. See ``client``."""

from collections.abc import Mapping
from urllib.parse import quote

from trainyard.contract.answers.people import Days, Export, Removals, Storage
from trainyard.rest.answers import Page
from trainyard.rest.client import Client


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
