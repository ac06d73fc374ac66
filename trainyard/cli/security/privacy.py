"""``trainyard privacy``: what belongs to oneself, and where a project's data lie and for how long."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from trainyard.cli.screen import Screen, size
from trainyard.contract.answers.people import Export
from trainyard.rest import privacy_calls
from trainyard.rest.client import Client
from trainyard.rest.connection import ApiError

ASK_EVERY_S = 0.5
CHUNK_BYTES = 1024 * 1024
FOR_EVER = "for ever"


def export(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    """Have an export made, or take the one of the last hour, and bring it here."""
    try:
        found: Export | None = privacy_calls.request_export(client)
    except ApiError as error:
        if error.status != 409:
            raise
        found = privacy_calls.newest_export(client)  # one of the last hour
    deadline = time.monotonic() + arguments.timeout
    while found is not None and found["state"] == "waiting" and time.monotonic() < deadline:
        time.sleep(ASK_EVERY_S)
        found = privacy_calls.newest_export(client)
    if found is None or found["state"] != "ready":
        screen.complain(found["problem"] if found and found["problem"] else "The export is not ready yet.")
        return 1
    target = Path(arguments.to or f"trainyard-{found['id']}.zip")
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    headers = {"Accept-Encoding": "identity"}
    with os.fdopen(descriptor, "wb") as file, client.open(f"me/exports/{found['id']}/file", headers) as answer:
        for part in answer.iter_bytes(CHUNK_BYTES):
            file.write(part)
    screen.say(f"{found['rows']} rows, {size(found['size_bytes'])}")
    screen.line(str(target))
    return 0


def storage(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    found = privacy_calls.storage(client, arguments.project)
    if arguments.json:
        screen.json(found)
        return 0
    rows = [
        (one["kind"], one["place"], one["region"] or "not known", size(one["bytes"]), one["number"],
         "outside" if one["is_outside"] else "")
        for one in found["items"]
    ]  # fmt: skip
    screen.table(("kind", "place", "region", "size", "number", ""), rows)
    if found["sentence"]:
        screen.complain(found["sentence"])
    return 0


def retention(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    """Show how long what is kept; with ``--keep`` what would go, and with ``--yes`` save it."""
    days = dict(arguments.keep)
    if days and not arguments.yes:
        removals = privacy_calls.preview_retention(client, arguments.project, days)["items"]
        screen.say("This would be removed now. --yes saves it.")
        titles = ("kind", "older than", "runs", "size")
        screen.table(titles, [(one["kind"], f"{one['days']} d", one["runs"], size(one["bytes"])) for one in removals])
        return 0
    if days:
        kept = privacy_calls.set_retention(client, arguments.project, days)["days"]
    else:
        kept = privacy_calls.retention(client, arguments.project)["days"]
    screen.table(
        ("kind", "kept"), [(kind, FOR_EVER if number is None else f"{number} d") for kind, number in kept.items()]
    )
    return 0


def kind_and_days(text: str) -> tuple[str, int | None]:
    """Read ``logs=30``; ``logs=`` is for ever."""
    kind, sign, number = text.partition("=")
    if not sign:
        raise ValueError(text)
    return kind, int(number) if number else None
